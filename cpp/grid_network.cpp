#include "grid_network.h"

#include <array>

namespace dope {

namespace {

constexpr std::size_t kMostGridArcs = LargeGridNetwork<std::int32_t>::kMostArcs;

bool has_pairs(const Point& shape, const Point& offset) {
    return !tails(whole(shape), shape, offset).empty();
}

}  // namespace

GridLayout::GridLayout(const Point& grid, const std::vector<Point>& all_offsets) : shape(grid) {
    Point padded = shape;
    for (std::size_t m = 0; m < all_offsets.size(); ++m) {
        if (!has_pairs(shape, all_offsets[m])) continue;
        used.push_back({m, 0});
        for (std::size_t a = 0; a < shape.size(); ++a) {
            padded[a] = std::max(padded[a], shape[a] + std::abs(all_offsets[m][a]));
        }
    }
    if (2 * used.size() > kMostGridArcs) {
        throw std::invalid_argument("the kernel has " + std::to_string(2 * used.size()) +
                                    " neighbors: expected at most " +
                                    std::to_string(kMostGridArcs));
    }
    const auto refuse_size = [&] {
        throw std::invalid_argument("the grid " + text(shape) + " has more than " +
                                    std::to_string(kMostSites) +
                                    " sites with its padding: expected smaller blocks");
    };
    if (volume(padded) > kMostSites) refuse_size();
    strides = row_major_strides(padded);

    Index reach = 0;
    for (const Used& use : used)
        reach = std::max(reach, std::abs(dot(all_offsets[use.offset], strides)));
    Index body = volume(shape) > 0 ? 1 : 0;
    for (std::size_t a = 0; a < shape.size(); ++a) body += (shape[a] - 1) * strides[a];
    first = reach;
    sites = reach + body + reach;
    if (sites > kMostSites) refuse_size();
    for (const Used& use : used) {
        const auto step = static_cast<Site>(dot(all_offsets[use.offset], strides));
        steps.push_back(step);
        steps.push_back(-step);
    }
    std::sort(steps.begin(), steps.end());
    for (Used& use : used) {
        const auto step = static_cast<Site>(dot(all_offsets[use.offset], strides));
        const auto place = std::lower_bound(steps.begin(), steps.end(), step);
        use.arc = static_cast<Arc>(place - steps.begin());
    }
}

template <class Capacity, class Word>
GridNetwork<Capacity, Word>::GridNetwork(const GridWeights& weights, double scale)
    : layout_(weights.shape(), weights.offsets()),
      arcs_(static_cast<Arc>(layout_.steps.size())),
      words_(words(layout_.steps.size())) {
    require_scale(scale);
    residual_.resize(static_cast<std::size_t>(layout_.sites) * layout_.steps.size());
    open_.resize(static_cast<std::size_t>(layout_.sites) * 2 * words_);
    arrange_rows();
    fill(weights, scale);
    finish_sites();
}

template <class Capacity, class Word>
void GridNetwork<Capacity, Word>::arrange_rows() {
    constexpr Arc kMostInRow = sizeof(EightMarks);
    for (Arc m = 0; m < arcs_; ++m) {
        const Site step = layout_.steps[static_cast<std::size_t>(m)];
        const auto shift = static_cast<std::uint32_t>(m) % kBits;
        const bool goes_on = !rows_.empty() && shift != 0 && m - rows_.back().first < kMostInRow &&
                             step - rows_.back().step == m - rows_.back().first;
        if (!goes_on) {
            const auto word = static_cast<std::uint32_t>(m) / kBits;
            rows_.push_back(
                {m, step, static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(shift), 0});
        }
        rows_.back().all = rows_.back().all << 1 | 1;
        row_of_.push_back(static_cast<std::uint32_t>(rows_.size() - 1));
    }
    row_of_.push_back(static_cast<std::uint32_t>(rows_.size()));
    rows_.push_back({arcs_, 0, 0, 0, 0});
}

// Row by row and within a row offset by offset: the rows that an offset writes to stay in the
// cache.
template <class Capacity, class Word>
void GridNetwork<Capacity, Word>::fill(const GridWeights& weights, double scale) {
    std::vector<Box> tails;
    for (const auto& use : layout_.used) tails.push_back(weights.tails(use.offset));
    const std::size_t last = layout_.shape.size() - 1;
    for_each_run(whole(layout_.shape), [&](const Point& first, Index length) {
        for (std::size_t m = 0; m < tails.size(); ++m) {
            bool inside = true;
            for (std::size_t a = 0; a < last; ++a) {
                inside &= tails[m].low[a] <= first[a] && first[a] < tails[m].high[a];
            }
            const Index low = std::max(first[last], tails[m].low[last]);
            const Index high = std::min(first[last] + length, tails[m].high[last]);
            if (!inside || low >= high) continue;
            Point from = first;
            from[last] = low;
            fill_run(weights, scale, layout_.used[m], from, high - low);
        }
    });
}

template <class Capacity, class Word>
void GridNetwork<Capacity, Word>::fill_run(const GridWeights& weights, double scale,
                                           GridLayout::Used use, const Point& first, Index length) {
    const auto [offset, m] = use;
    std::array<double, kRun> weight;
    std::array<double, kRun> capacity;
    weights.row(offset, first, length, weight.data());
    const auto count = static_cast<std::size_t>(length);
    for (std::size_t t = 0; t < count; ++t) {
        capacity[t] = capacity_or_minus_one<Capacity>(weight[t], scale);
    }
    const auto v = static_cast<Site>(layout_.place(first));
    for (std::size_t t = 0; t < count; ++t) {
        if (capacity[t] < 0.0) {
            Point p = first;
            p.back() += static_cast<Index>(t);
            refuse_weight<Capacity>(
                weight[t], scale,
                "at site " + text(p) + ", offset " + text(weights.offsets()[offset]));
        }
        const auto value = static_cast<Capacity>(capacity[t]);
        if (value == 0) continue;
        const auto p = static_cast<Site>(v + static_cast<Site>(t));
        const Site q = head(p, m);
        residual_[slot(p, m)] = value;
        residual_[slot(q, opposite(p, m))] = value;
    }
}

// To begin with, an arc is open both ways or not at all.
template <class Capacity, class Word>
void GridNetwork<Capacity, Word>::note_open_arcs(Site v) {
    for (std::size_t k = 0; k < words_; ++k) {
        const auto first = static_cast<Arc>(k * kBits);
        const Arc count = std::min(static_cast<Arc>(kBits), arcs_ - first);
        std::uint64_t open = 0;
        for (Arc m = 0; m < count; ++m) {
            open |= static_cast<std::uint64_t>(residual(v, first + m) > 0) << m;
        }
        open_arcs<true>(v)[k] = static_cast<Word>(open);
        open_arcs<false>(v)[k] = static_cast<Word>(open);
    }
}

template <class Capacity, class Word>
void GridNetwork<Capacity, Word>::finish_sites() {
    const Point strides = row_major_strides(layout_.shape);
    for_each_row([&](Site first, std::size_t callers, Site length) {
        for (Site t = 0; t < length; ++t) {
            std::int64_t sum = 0;
            for (Arc m = 0; m < arcs_; ++m) sum += residual(first + t, m);
            note_open_arcs(first + t);
            if (sum <= greatest_sum_) continue;
            Point site;
            auto rest = static_cast<Index>(callers) + t;
            for (const Index stride : strides) {
                site.push_back(rest / stride);
                rest %= stride;
            }
            require_sum<Capacity>(sum, "of site " + text(site));
            greatest_sum_ = static_cast<Excess>(sum);
        }
    });
}

template class GridNetwork<std::int16_t, std::uint8_t>;
template class GridNetwork<std::int32_t, std::uint8_t>;
template class GridNetwork<std::int64_t, std::uint8_t>;
template class GridNetwork<std::int16_t, std::uint64_t>;
template class GridNetwork<std::int32_t, std::uint64_t>;
template class GridNetwork<std::int64_t, std::uint64_t>;

}  // namespace dope
