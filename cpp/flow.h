// The flows that Python sees: one class per topology, with the width of the capacities chosen at
// run time.
#pragma once

#include <variant>

#include "graph_network.h"
#include "grid_network.h"
#include "max_flow.h"

namespace dope {

// Compiled once, in flow.cpp.
extern template class MaxFlow<GridNetwork<std::int16_t>>;
extern template class MaxFlow<GridNetwork<std::int32_t>>;
extern template class MaxFlow<GridNetwork<std::int64_t>>;
extern template class MaxFlow<GraphNetwork<std::int16_t>>;
extern template class MaxFlow<GraphNetwork<std::int32_t>>;
extern template class MaxFlow<GraphNetwork<std::int64_t>>;

template <template <class> class Network>
using FlowOfAnyWidth = std::variant<MaxFlow<Network<std::int16_t>>, MaxFlow<Network<std::int32_t>>,
                                    MaxFlow<Network<std::int64_t>>>;

// What both flows offer; see MaxFlow.
template <template <class> class Network>
class Flow {
  public:
    void minimize(const double* unary, const Poll& poll) {
        std::visit([&](auto& flow) { flow.minimize(unary, poll); }, flow_);
    }
    void labels(bool largest, bool* out) {
        std::visit([&](auto& flow) { flow.labels(largest, out); }, flow_);
    }
    double value() const {
        return std::visit([](const auto& flow) { return flow.value(); }, flow_);
    }
    std::size_t bytes() const {
        return std::visit([](const auto& flow) { return flow.bytes(); }, flow_);
    }
    void check() {
        std::visit([](auto& flow) { flow.check(); }, flow_);
    }

  protected:
    explicit Flow(FlowOfAnyWidth<Network> flow) : flow_(std::move(flow)) {}

  private:
    FlowOfAnyWidth<Network> flow_;
};

class GridFlow : public Flow<GridNetwork> {
  public:
    GridFlow(const GridWeights& weights, double scale, int bits);

    const Point& shape() const { return shape_; }
    static std::size_t bytes_needed(const Point& shape, const std::vector<Point>& offsets,
                                    int bits);

  private:
    Point shape_;
};

class GraphFlow : public Flow<GraphNetwork> {
  public:
    GraphFlow(std::int64_t sites, const Vertex* ends, const double* weights, std::size_t pairs,
              double scale, int bits);

    std::int64_t sites() const { return sites_; }
    static std::size_t bytes_needed(std::int64_t sites, std::int64_t pairs, int bits);

  private:
    std::int64_t sites_;
};

}  // namespace dope
