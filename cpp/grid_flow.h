// A GridFlow with one type of store.
#pragma once

#include "flow_of.h"
#include "grid_flow_maker.h"
#include "grid_network_fill.h"

namespace dope {

template <class Store>
class GridFlowOf final : public FlowOf<GridFlow, GridNetwork<Store>> {
  public:
    GridFlowOf(const GridWeights& weights, double scale, const Poll& poll)
        : FlowOf<GridFlow, GridNetwork<Store>>(GridNetwork<Store>(weights, scale, poll), scale),
          shape_(weights.shape()),
          offsets_(weights.offsets()) {}

    const Point& shape() const override { return shape_; }

    void refill(const GridWeights& weights, double scale, const Poll& poll) override {
        const Flow::Turn turn(*this);
        if (weights.shape() != shape_ || weights.offsets() != offsets_) {
            throw std::invalid_argument("the weights are of a grid " + text(weights.shape()) +
                                        " or a kernel other than before: expected the grid " +
                                        text(shape_) + " with the same offsets");
        }
        this->flow_.refill(weights, scale, poll);
    }

    std::vector<Crossing> crossings(std::size_t axis, Index at) const override {
        const Flow::Turn turn(*this);
        std::vector<Crossing> found;
        const Point strides = row_major_strides(shape_);
        const Index face = std::clamp<Index>(at, 0, shape_[axis]);  // further ones cut nothing, too
        this->flow_.network().for_each_pair_across(
            axis, face, [&](Site v, Arc m, const Point& tail, const Point& step) {
                const auto [forth, back] = this->flow_.residuals(v, m);
                const Index p = dot(tail, strides);
                const Index q = p + dot(step, strides);
                found.push_back(step[axis] > 0 ? Crossing{p, q, forth, back}
                                               : Crossing{q, p, back, forth});
            });
        return found;
    }

  private:
    Point shape_;
    std::vector<Point> offsets_;
};

template <class Store>
std::unique_ptr<GridFlow> GridFlowMaker<Store>::make(const GridWeights& weights, double scale,
                                                     const Poll& poll) {
    return std::make_unique<GridFlowOf<Store>>(weights, scale, poll);
}

template <class Store>
std::size_t GridFlowMaker<Store>::bytes_needed(const GridLayout& layout) {
    return MaxFlow<GridNetwork<Store>>::bytes_needed(
        Store::bytes_needed(layout), static_cast<std::size_t>(layout.sites),
        static_cast<std::size_t>(volume(layout.shape)));
}

}  // namespace dope
