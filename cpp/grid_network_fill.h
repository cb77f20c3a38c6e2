// How a GridNetwork gets its capacities.
#pragma once

#include <array>

#include "grid_network.h"

namespace dope {

// Sites are filled in short runs: the records that a run of tails and its runs of heads write to
// stay in the first cache.
inline constexpr Index kFillRun = 128;

template <class Store>
void GridNetwork<Store>::refill(const GridWeights& weights, double scale, const Poll& poll) {
    this->clear();
    fill(weights, scale, poll);
}

// Row by row and within a row offset by offset.
template <class Store>
void GridNetwork<Store>::fill(const GridWeights& weights, double scale, const Poll& poll) {
    require_scale(scale);
    open_arcs_inside();
    std::vector<Box> tails;
    for (const auto& use : layout_.used) tails.push_back(weights.tails(use.offset));
    const std::size_t last = layout_.shape.size() - 1;
    Point from;
    for_each_run(
        whole(layout_.shape),
        [&](const Point& first, Index length) {
            if (poll && poll()) throw Interrupted();
            for (std::size_t m = 0; m < tails.size(); ++m) {
                bool inside = true;
                for (std::size_t a = 0; a < last; ++a) {
                    inside &= tails[m].low[a] <= first[a] && first[a] < tails[m].high[a];
                }
                const Index low = std::max(first[last], tails[m].low[last]);
                const Index high = std::min(first[last] + length, tails[m].high[last]);
                if (!inside || low >= high) continue;
                from = first;
                from[last] = low;
                fill_run(weights, scale, layout_.used[m], from, high - low);
            }
        },
        kFillRun);
    add_up();
}

// To begin with, an arc is open both ways, if it does not lead out of the grid.
template <class Store>
void GridNetwork<Store>::open_arcs_inside() {
    const std::size_t last = layout_.shape.size() - 1;
    struct Way {
        Arc arc;
        Point step;
    };
    std::vector<Way> ways;
    for (const auto& use : layout_.used) {
        Point back = use.step;
        for (Index& axis : back) axis = -axis;
        ways.push_back({use.arc, use.step});
        ways.push_back({layout_.opposite(use.arc), back});
    }
    for_each_run(whole(layout_.shape), [&](const Point& first, Index length) {
        auto open = this->none_open();
        std::vector<const Way*> inside;
        for (const Way& way : ways) {
            bool stays = true;
            for (std::size_t a = 0; a < last; ++a) {
                const Index there = first[a] + way.step[a];
                stays &= 0 <= there && there < layout_.shape[a];
            }
            if (!stays) continue;
            this->insert(open, way.arc);
            inside.push_back(&way);
        }
        const auto start = static_cast<Site>(layout_.place(first));
        for (Index t = 0; t < length; ++t) this->set_open(start + static_cast<Site>(t), open);
        for (const Way* way : inside) {
            // Along the last axis the first -step sites, or the last step ones, lead out.
            const Index step = way->step[last];
            const Index low = std::max(first[last], step > 0 ? layout_.shape[last] - step : 0);
            const Index high =
                std::min(first[last] + length, step > 0 ? layout_.shape[last] : -step);
            for (Index x = low; x < high; ++x) {
                this->close(start + static_cast<Site>(x - first[last]), way->arc);
            }
        }
    });
}

template <class Store>
void GridNetwork<Store>::fill_run(const GridWeights& weights, double scale,
                                  const GridLayout::Used& use, const Point& first, Index length) {
    std::array<double, kFillRun> weight;
    weights.row(use.offset, first, length, weight.data());
    const auto [least, most] = round_weights(weight.data(), length, scale);
    if (least < 0.0 || most > static_cast<double>(Width<Capacity>::kMostCapacity)) {
        weights.row(use.offset, first, length, weight.data());
        for (Index t = 0; t < length; ++t) {
            const double found = weight[static_cast<std::size_t>(t)];
            if (capacity_or_minus_one<Capacity>(found, scale) >= 0.0) continue;
            Point p = first;
            p.back() += t;
            refuse_weight<Capacity>(found, scale,
                                    "at site " + text(p) + ", offset " + text(use.step));
        }
    }
    auto p = static_cast<Site>(layout_.place(first));
    Site q = this->head(p, use.arc);
    const Arc back = layout_.opposite(use.arc);
    for (std::size_t t = 0; t < static_cast<std::size_t>(length); ++t, ++p, ++q) {
        const auto capacity = static_cast<Capacity>(weight[t]);
        this->set_residual(p, use.arc, capacity);
        this->set_residual(q, back, capacity);
        if (capacity == 0) {
            this->close(p, use.arc);
            this->close(q, back);
        }
    }
}

template <class Store>
void GridNetwork<Store>::add_up() {
    // Where 32 bits hold the sum of any number of arcs, they are added twice as fast.
    using Sum = std::conditional_t<sizeof(Capacity) == 2, std::int32_t, std::int64_t>;
    greatest_sum_ = 0;
    const Point strides = row_major_strides(layout_.shape);
    for_each_row([&](Site first, std::size_t callers, Site length) {
        for (Site t = 0; t < length; ++t) {
            const Capacity* capacities = this->residuals(first + t);
            Sum sum = 0;
            for (Arc m = 0; m < this->degree(first + t); ++m) sum += capacities[m];
            if (sum <= static_cast<Sum>(greatest_sum_)) continue;
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

template <class Store>
Site GridNetwork<Store>::place(std::size_t i) const {
    auto rest = static_cast<Index>(i);
    Index place = layout_.first;
    for (std::size_t a = layout_.shape.size(); a-- > 0;) {
        place += rest % layout_.shape[a] * layout_.strides[a];
        rest /= layout_.shape[a];
    }
    return static_cast<Site>(place);
}

}  // namespace dope
