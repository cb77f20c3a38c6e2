#include "edge_list.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
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

// A pair without its lower site.
template <class Place>
struct Half {
    Place high;
    double weight;
};

template <class Place>
struct Edge {
    Place low;
    Place high;
    double weight;
};

template <class Place>
void sort_row(Half<Place>* begin, Half<Place>* end) {
    constexpr std::ptrdiff_t kShort = 32;
    if (end - begin > kShort) {
        std::stable_sort(
            begin, end, [](const Half<Place>& a, const Half<Place>& b) { return a.high < b.high; });
        return;
    }
    for (Half<Place>* next = begin + 1; next < end; ++next) {
        const Half<Place> moved = *next;
        Half<Place>* place = next;
        for (; place > begin && moved.high < (place - 1)->high; --place) *place = *(place - 1);
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

// Two to the power of so many stretches of memory are written to by turns: each edge is brought
// near its place before it is put there, for written at once to where it belongs, most would miss
// the cache.
constexpr int kBuckets = 9;

// Edges as callers write them, read a few at a time into arrays of one type.
class EdgeReader {
  public:
    EdgeReader(const SiteView& first, const SiteView& second, const WeightView& weights,
               Index count, const Poll& poll)
        : first_(first), second_(second), weights_(weights), count_(count), poll_(poll) {}

    // visit(low, high, weight) of all edges, in the caller's order.
    template <class Visit>
    void operator()(Visit&& visit) {
        for (Index from = 0; from < count_; from += kFew) {
            if (from % kBetweenPolls == 0 && poll_ && poll_()) throw Interrupted();
            const Index number = std::min(kFew, count_ - from);
            read(first_, from, number, one_);
            read(second_, from, number, other_);
            read(weights_, from, number, weight_);
            for (std::size_t k = 0; k < static_cast<std::size_t>(number); ++k) {
                visit(std::min(one_[k], other_[k]), std::max(one_[k], other_[k]), weight_[k]);
            }
        }
    }

  private:
    static constexpr Index kFew = 512;
    static constexpr Index kBetweenPolls = 1 << 16;

    template <class AnyView, class T>
    static void read(const AnyView& view, Index from, Index number, std::array<T, kFew>& out) {
        std::visit(
            [&](const auto& typed) {
                const auto* place = typed.start + from * typed.strides[0];
                for (std::size_t k = 0; k < static_cast<std::size_t>(number); ++k) {
                    out[k] = static_cast<T>(*place);
                    place += typed.strides[0];
                }
            },
            view);
    }

    const SiteView& first_;
    const SiteView& second_;
    const WeightView& weights_;
    Index count_;
    const Poll& poll_;
    std::array<std::int64_t, kFew> one_;
    std::array<std::int64_t, kFew> other_;
    std::array<double, kFew> weight_;
};

template <class Place>
EdgeList sorted(Index sites, Index count, const Poll& poll, EdgeReader for_each) {
    const int shift =
        std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(sites))) - kBuckets);
    std::vector<Index> bucket(static_cast<std::size_t>(sites >> shift) + 2, 0);
    bool in_order = true;
    std::int64_t last_low = -1;
    std::int64_t last_high = -1;
    for_each([&](std::int64_t low, std::int64_t high, double) {
        ++at(bucket, (low >> shift) + 1);
        in_order &= last_low < low || (last_low == low && last_high < high);
        last_low = low;
        last_high = high;
    });
    EdgeList list = list_of(count);
    if (in_order) {
        std::size_t to = 0;
        for_each([&](std::int64_t low, std::int64_t high, double weight) {
            list.first[to] = low;
            list.second[to] = high;
            list.weights[to++] = 0.0 + weight;
        });
        return list;
    }
    std::partial_sum(bucket.begin(), bucket.end(), bucket.begin());
    const auto edges =
        std::make_unique_for_overwrite<Edge<Place>[]>(static_cast<std::size_t>(count));
    for_each([&](std::int64_t low, std::int64_t high, double weight) {
        edges[static_cast<std::size_t>(at(bucket, low >> shift)++)] = {
            static_cast<Place>(low), static_cast<Place>(high), weight};
    });
    // Now bucket[k] is where the edges of bucket k end.
    std::vector<Index> row;
    std::vector<Half<Place>> halves;
    std::size_t to = 0;
    Index begin = 0;
    for (Index k = 0; k + 1 < static_cast<Index>(bucket.size()); ++k) {
        if (poll && poll()) throw Interrupted();
        const Index end = at(bucket, k);
        const std::int64_t base = k << shift;
        row.assign((std::size_t{1} << shift) + 1, 0);
        if (halves.size() < static_cast<std::size_t>(end - begin)) {
            halves.resize(static_cast<std::size_t>(end - begin));
        }
        const Edge<Place>* const here = edges.get() + begin;
        const Index number = end - begin;
        for (Index e = 0; e < number; ++e) ++at(row, here[e].low - base + 1);
        std::partial_sum(row.begin(), row.end(), row.begin());
        for (Index e = 0; e < number; ++e) {
            at(halves, at(row, here[e].low - base)++) = {here[e].high, here[e].weight};
        }
        // Now row[v] is where the halves of v end.
        Index first = 0;
        for (Index v = 0; first < number; ++v) {
            const Index last = at(row, v);
            sort_row(halves.data() + first, halves.data() + last);
            for (Index e = first; e < last; ++e) {
                const Half<Place>& half = at(halves, e);
                if (e > first && half.high == at(halves, e - 1).high) {
                    list.weights[to - 1] += half.weight;
                    continue;
                }
                list.first[to] = base + v;
                list.second[to] = half.high;
                list.weights[to++] = 0.0 + half.weight;
            }
            first = last;
        }
        begin = end;
    }
    return shortened(std::move(list), static_cast<Index>(to));
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
                    const WeightView& weights, Index count, const Poll& poll) {
    const EdgeReader edges(first, second, weights, count, poll);
    const bool narrow = sites <= std::numeric_limits<std::uint32_t>::max();
    return narrow ? sorted<std::uint32_t>(sites, count, poll, edges)
                  : sorted<std::int64_t>(sites, count, poll, edges);
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
