#include "edge_list.h"

#include <cmath>
#include <numeric>
#include <unordered_map>

#include "exact_run.h"

namespace dope {

namespace {

// for_all(count, poll, visit): visit(k) of all k, with a look at `poll` now and then.
template <class Visit>
void for_all(Index count, const Poll& poll, Visit&& visit) {
    constexpr Index kBetweenPolls = 1 << 16;
    for (Index low = 0; low < count; low += kBetweenPolls) {
        if (poll && poll()) throw Interrupted();
        const Index high = std::min(count, low + kBetweenPolls);
        for (Index k = low; k < high; ++k) visit(k);
    }
}

template <class T>
T& at(std::vector<T>& list, Index k) {
    return list[static_cast<std::size_t>(k)];
}

// A pair without its first site.
struct Half {
    std::int64_t second;
    double weight;
};

void sort_row(Half* begin, Half* end) {
    constexpr std::ptrdiff_t kShort = 32;
    if (end - begin > kShort) {
        std::stable_sort(begin, end,
                         [](const Half& a, const Half& b) { return a.second < b.second; });
        return;
    }
    for (Half* next = begin + 1; next < end; ++next) {
        const Half moved = *next;
        Half* place = next;
        for (; place > begin && moved.second < (place - 1)->second; --place) *place = *(place - 1);
        *place = moved;
    }
}

EdgeList list_of(Index count) {
    const auto size = static_cast<std::size_t>(count);
    return {count, std::make_unique_for_overwrite<std::int64_t[]>(size),
            std::make_unique_for_overwrite<std::int64_t[]>(size),
            std::make_unique_for_overwrite<double[]>(size)};
}

EdgeList shortened(EdgeList list, Index count) {
    if (count == list.count) return list;
    EdgeList fewer = list_of(count);
    std::copy_n(list.first.get(), count, fewer.first.get());
    std::copy_n(list.second.get(), count, fewer.second.get());
    std::copy_n(list.weights.get(), count, fewer.weights.get());
    return fewer;
}

template <class Ends, class OtherEnds>
EdgeList sorted(Index sites, const Ends& first, const OtherEnds& second,
                const View<double>& weights, Index count, const Poll& poll) {
    const auto low_of = [&](Index k) {
        return std::min<std::int64_t>(first.start[k * first.strides[0]],
                                      second.start[k * second.strides[0]]);
    };
    const auto high_of = [&](Index k) {
        return std::max<std::int64_t>(first.start[k * first.strides[0]],
                                      second.start[k * second.strides[0]]);
    };
    const auto weight_of = [&](Index k) { return weights.start[k * weights.strides[0]]; };

    std::vector<Index> row(static_cast<std::size_t>(sites) + 1, 0);  // where a site's pairs begin
    bool in_order = true;
    std::int64_t last_low = -1;
    std::int64_t last_high = -1;
    for_all(count, poll, [&](Index k) {
        const std::int64_t low = low_of(k);
        const std::int64_t high = high_of(k);
        ++at(row, low + 1);
        in_order &= last_low < low || (last_low == low && last_high < high);
        last_low = low;
        last_high = high;
    });
    EdgeList list = list_of(count);
    if (in_order) {
        for_all(count, poll, [&](Index k) {
            list.first[static_cast<std::size_t>(k)] = low_of(k);
            list.second[static_cast<std::size_t>(k)] = high_of(k);
            list.weights[static_cast<std::size_t>(k)] = 0.0 + weight_of(k);
        });
        return list;
    }
    std::partial_sum(row.begin(), row.end(), row.begin());
    auto halves = std::make_unique_for_overwrite<Half[]>(static_cast<std::size_t>(count));
    for_all(count, poll, [&](Index k) {
        halves[static_cast<std::size_t>(at(row, low_of(k))++)] = {high_of(k), weight_of(k)};
    });
    // Now row[v] is where the pairs of v end.
    Index found = 0;
    Index begin = 0;
    for_all(sites, poll, [&](Index v) {
        const Index end = at(row, v);
        sort_row(halves.get() + begin, halves.get() + end);
        for (Index k = begin; k < end; ++k) {
            const Half& half = halves[static_cast<std::size_t>(k)];
            const auto to = static_cast<std::size_t>(found);
            if (k > begin && half.second == list.second[to - 1]) {
                list.weights[to - 1] += half.weight;
                continue;
            }
            list.first[to] = v;
            list.second[to] = half.second;
            list.weights[to] = 0.0 + half.weight;
            ++found;
        }
        begin = end;
    });
    return shortened(std::move(list), found);
}

// Which offset leads from one site to another. Most pairs have one of the offsets that led just as
// far in the list before, and are not divided up.
class Offsets {
  public:
    explicit Offsets(const Point& shape) : shape_(shape), strides_(row_major_strides(shape)) {}

    std::uint32_t between(std::int64_t first, std::int64_t second) {
        move_to(first);
        std::vector<std::uint32_t>& known = led_[second - first];
        for (const std::uint32_t k : known) {
            if (stays_inside(found_[k])) return k;
        }
        const Point other = coordinates(second);
        Point offset(shape_.size());
        for (std::size_t a = 0; a < shape_.size(); ++a) offset[a] = other[a] - here_[a];
        known.push_back(static_cast<std::uint32_t>(found_.size()));
        found_.push_back(offset);
        return known.back();
    }

    const std::vector<Point>& found() const { return found_; }

  private:
    Point coordinates(std::int64_t site) const {
        Point point(shape_.size());
        for (std::size_t a = 0; a < shape_.size(); ++a) {
            point[a] = site / strides_[a];
            site -= point[a] * strides_[a];
        }
        return point;
    }

    // Sites come in order, mostly along a row.
    void move_to(std::int64_t site) {
        const std::int64_t step = site - site_;
        if (!here_.empty() && step >= 0 && here_.back() + step < shape_.back()) {
            here_.back() += step;
        } else {
            here_ = coordinates(site);
        }
        site_ = site;
    }

    bool stays_inside(const Point& offset) const {
        for (std::size_t a = 0; a < shape_.size(); ++a) {
            const Index there = here_[a] + offset[a];
            if (there < 0 || there >= shape_[a]) return false;
        }
        return true;
    }

    Point shape_;
    Point strides_;
    std::vector<Point> found_;
    std::unordered_map<std::int64_t, std::vector<std::uint32_t>> led_;  // by second - first
    std::int64_t site_ = -1;
    Point here_;
};

}  // namespace

BadEdges find_bad_edges(Index sites, const SiteView& first, const SiteView& second, Index count,
                        const Poll& poll) {
    BadEdges bad;
    std::visit(
        [&](const auto& one, const auto& other) {
            for_all(count, poll, [&](Index k) {
                const std::int64_t i = one.start[k * one.strides[0]];
                const std::int64_t j = other.start[k * other.strides[0]];
                const bool inside = i >= 0 && j >= 0 && i < sites && j < sites;
                if (!inside && bad.outside < 0) bad.outside = k;
                if (i == j && bad.loop < 0) bad.loop = k;
            });
        },
        first, second);
    return bad;
}

EdgeList sort_edges(Index sites, const SiteView& first, const SiteView& second,
                    const View<double>& weights, Index count, const Poll& poll) {
    return std::visit(
        [&](const auto& one, const auto& other) {
            return sorted(sites, one, other, weights, count, poll);
        },
        first, second);
}

Strength strength_of(Index sites, const std::int64_t* first, const std::int64_t* second,
                     const double* weights, Index count, const Poll& poll) {
    std::vector<double> sums(static_cast<std::size_t>(sites), 0.0);
    std::vector<Index> pairs(static_cast<std::size_t>(sites), 0);
    for (const std::int64_t* ends : {first, second}) {
        for_all(count, poll, [&](Index k) {
            at(sums, ends[k]) += std::fabs(weights[k]);
            ++at(pairs, ends[k]);
        });
    }
    Strength found;
    for (const double sum : sums) found.greatest_sum = std::max(found.greatest_sum, sum);
    for (const Index number : pairs) found.most_pairs = std::max(found.most_pairs, number);
    return found;
}

ExactSum cut_weight(const std::int64_t* first, const std::int64_t* second, const double* weights,
                    Index count, const std::uint8_t* labels, const Poll& poll) {
    ExactSum sum;
    std::vector<double> run(kMostInRun + 1);  // one more is written than counts
    std::size_t held = 0;
    for_all(count, poll, [&](Index k) {
        run[held] = weights[k];
        held += (labels[first[k]] != 0) != (labels[second[k]] != 0);
        if (held == kMostInRun) add_run({run.data(), std::exchange(held, 0)}, sum);
    });
    add_run({run.data(), held}, sum);
    return sum;
}

GridFields grid_fields(const Point& shape, const std::int64_t* first, const std::int64_t* second,
                       const double* weights, Index count, std::size_t most, const Poll& poll) {
    Offsets offsets(shape);
    std::vector<std::uint32_t> which(static_cast<std::size_t>(count));
    for_all(count, poll, [&](Index k) { at(which, k) = offsets.between(first[k], second[k]); });
    // The offset found k-th is the rank[k]-th in order.
    std::vector<std::size_t> order(offsets.found().size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return offsets.found()[a] < offsets.found()[b];
    });
    GridFields all;
    std::vector<double*> field_of(order.size(), nullptr);
    for (const std::size_t k : order) {
        all.offsets.push_back(offsets.found()[k]);
        if (order.size() > most) continue;
        all.fields.push_back(std::make_unique<double[]>(static_cast<std::size_t>(volume(shape))));
        field_of[k] = all.fields.back().get();
    }
    if (order.size() > most) return all;
    for_all(count, poll, [&](Index k) { field_of[at(which, k)][first[k]] = weights[k]; });
    return all;
}

}  // namespace dope
