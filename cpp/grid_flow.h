// A GridFlow with one type of store.
#pragma once

#include "block_flow_of.h"
#include "flow_of.h"
#include "grid_flow_maker.h"
#include "grid_network_fill.h"

namespace dope {

template <class Store>
class GridFlowOf final : public FlowOf<GridFlow, GridNetwork<Store>> {
  public:
    GridFlowOf(const GridWeights& weights, double scale, const Poll& poll)
        : FlowOf<GridFlow, GridNetwork<Store>>(filled(weights, scale, poll), scale),
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

  private:
    static GridNetwork<Store> filled(const GridWeights& weights, double scale, const Poll& poll) {
        GridNetwork<Store> network(weights.shape(), weights.offsets());
        network.fill(weights, scale, poll);
        return network;
    }

    Point shape_;
    std::vector<Point> offsets_;
};

template <class Store>
std::unique_ptr<GridFlow> GridFlowMaker<Store>::make(const GridWeights& weights, double scale,
                                                     const Poll& poll) {
    return std::make_unique<GridFlowOf<Store>>(weights, scale, poll);
}

template <class Store>
class BlockGridFlow final : public BlockFlowOf<GridNetwork<Store>> {
  public:
    BlockGridFlow(const GridWeights& weights, double scale, const std::vector<Point>& cuts)
        : BlockFlowOf<GridNetwork<Store>>(divided(weights, cuts), scale), weights_(weights) {
        // Planes of the first axis, a good deal thicker than the kernel reaches: pairs between two
        // parts are computed twice.
        Index reach = 1;
        for (const Point& offset : weights_.offsets()) {
            reach = std::max(reach, std::abs(offset[0]));
        }
        const Index planes = weights_.shape()[0];
        const Index parts = std::clamp<Index>(planes / (4 * reach), 1, kMostParts);
        for (Index k = 0; k <= parts; ++k) edges_.push_back(planes * k / parts);
        greatest_.assign(static_cast<std::size_t>(parts), 0);
    }

    std::size_t parts() const override { return greatest_.size(); }
    void fill(std::size_t part, const Poll& poll) override {
        greatest_[part] = this->network_.fill_planes(weights_, this->scale_, edges_[part],
                                                     edges_[part + 1], poll);
    }
    void finish() override {
        this->network_.set_greatest_sum(*std::max_element(greatest_.begin(), greatest_.end()));
        BlockFlowOf<GridNetwork<Store>>::finish();
    }

  private:
    using Excess = typename GridNetwork<Store>::Excess;
    static constexpr Index kMostParts = 64;

    static GridNetwork<Store> divided(const GridWeights& weights, const std::vector<Point>& cuts) {
        GridNetwork<Store> network(weights.shape(), weights.offsets());
        network.divide(cuts);
        return network;
    }

    GridWeights weights_;           // and with it the picture
    Point edges_;                   // of the parts
    std::vector<Excess> greatest_;  // sum of one site's capacities, in every part
};

template <class Store>
std::unique_ptr<BlockFlow> GridFlowMaker<Store>::make_blocks(const GridWeights& weights,
                                                             double scale,
                                                             const std::vector<Point>& cuts) {
#ifdef DOPE_FUZZ
    static_cast<void>(
        scale);  // the fuzzer knows whole networks only, and is built in half the time
    static_cast<void>(cuts);
    throw std::logic_error("no blocks of " + text(weights.shape()) + " in a fuzzer");
#else
    return std::make_unique<BlockGridFlow<Store>>(weights, scale, cuts);
#endif
}

template <class Store>
std::size_t GridFlowMaker<Store>::bytes_needed(const GridLayout& layout) {
    return MaxFlow<GridNetwork<Store>>::bytes_needed(
        Store::bytes_needed(layout), static_cast<std::size_t>(layout.sites),
        static_cast<std::size_t>(volume(layout.shape)));
}

}  // namespace dope
