// A grid as a network: neighbors by arithmetic, residual capacities from weights.
//
// Store says how sites are kept: FewArcs or ManyArcs.
#pragma once

#include "capacities.h"
#include "grid_layout.h"
#include "grid_weights.h"

namespace dope {

template <class Store>
class GridNetwork : public Store {
  public:
    using typename Store::Capacity;
    using typename Store::Excess;

    // Throws Interrupted where `poll` says so, here and in refill().
    GridNetwork(const GridWeights& weights, double scale, const Poll& poll)
        : GridNetwork(GridLayout(weights.shape(), weights.offsets()), weights, scale, poll) {}

    static std::size_t bytes_needed(const GridLayout& layout) {
        return Store::bytes_needed(layout);
    }
    std::size_t bytes() const { return bytes_needed(layout_); }

    // The same grid and kernel with other weights, as if it were new.
    void refill(const GridWeights& weights, double scale, const Poll& poll);

    Excess greatest_sum() const { return greatest_sum_; }  // of one site's capacities

    // visit(place of the first site here, its place in the caller's array, length) for every row.
    template <class Visit>
    void for_each_row(Visit&& visit) const {
        std::size_t callers = 0;
        for_each_run(whole(layout_.shape), [&](const Point& first, Index length) {
            visit(static_cast<Site>(layout_.place(first)), callers, static_cast<Site>(length));
            callers += static_cast<std::size_t>(length);
        });
    }
    std::size_t real_sites() const { return static_cast<std::size_t>(volume(layout_.shape)); }
    // Where the caller's i-th site lies.
    Site place(std::size_t i) const;

    // visit(place of p, arc, p, step) for every pair (p, p + step) whose sites lie on both sides of
    // a face: one coordinate on this axis is below `at`, the other is not.
    template <class Visit>
    void for_each_pair_across(std::size_t axis, Index at, Visit&& visit) const {
        for (const auto& use : layout_.used) {
            const Index step = use.step[axis];
            Box box = tails(whole(layout_.shape), layout_.shape, use.step);
            box.low[axis] = std::max(box.low[axis], step > 0 ? at - step : at);
            box.high[axis] = std::min(box.high[axis], step > 0 ? at : at - step);
            for_each_run(box, [&](Point p, Index length) {
                auto v = static_cast<Site>(layout_.place(p));
                for (Index t = 0; t < length; ++t, ++p.back(), ++v) {
                    visit(v, use.arc, std::as_const(p), use.step);
                }
            });
        }
    }

  private:
    GridNetwork(GridLayout layout, const GridWeights& weights, double scale, const Poll& poll)
        : Store(layout), layout_(std::move(layout)) {  // which Store may have changed
        fill(weights, scale, poll);
    }

    void fill(const GridWeights& weights, double scale, const Poll& poll);
    class Filler;
    // Of a site's capacities. Where 32 bits hold the sum of any number of them, half as wide.
    using Sum = std::conditional_t<sizeof(Capacity) == 2, std::int32_t, std::int64_t>;

    GridLayout layout_;
    Excess greatest_sum_ = 0;
};

}  // namespace dope
