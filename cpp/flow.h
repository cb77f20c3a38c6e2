// The flows that Python sees: one class per topology, with the width of the capacities chosen at
// run time.
#pragma once

#include <variant>

#include "graph_network.h"
#include "grid_network.h"
#include "max_flow.h"

namespace dope {

// Compiled once, in flow.cpp.
extern template class MaxFlow<SmallGridNetwork<std::int16_t>>;
extern template class MaxFlow<SmallGridNetwork<std::int32_t>>;
extern template class MaxFlow<SmallGridNetwork<std::int64_t>>;
extern template class MaxFlow<LargeGridNetwork<std::int16_t>>;
extern template class MaxFlow<LargeGridNetwork<std::int32_t>>;
extern template class MaxFlow<LargeGridNetwork<std::int64_t>>;
extern template class MaxFlow<GraphNetwork<std::int16_t>>;
extern template class MaxFlow<GraphNetwork<std::int32_t>>;
extern template class MaxFlow<GraphNetwork<std::int64_t>>;

using AnyGridFlow =
    std::variant<MaxFlow<SmallGridNetwork<std::int16_t>>, MaxFlow<SmallGridNetwork<std::int32_t>>,
                 MaxFlow<SmallGridNetwork<std::int64_t>>, MaxFlow<LargeGridNetwork<std::int16_t>>,
                 MaxFlow<LargeGridNetwork<std::int32_t>>, MaxFlow<LargeGridNetwork<std::int64_t>>>;
using AnyGraphFlow =
    std::variant<MaxFlow<GraphNetwork<std::int16_t>>, MaxFlow<GraphNetwork<std::int32_t>>,
                 MaxFlow<GraphNetwork<std::int64_t>>>;

// What both flows offer; see MaxFlow.
template <class AnyFlow>
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
    explicit Flow(AnyFlow flow) : flow_(std::move(flow)) {}

  private:
    AnyFlow flow_;
};

class GridFlow : public Flow<AnyGridFlow> {
  public:
    GridFlow(const GridWeights& weights, double scale, int bits);

    const Point& shape() const { return shape_; }
    static std::size_t bytes_needed(const Point& shape, const std::vector<Point>& offsets,
                                    int bits);

  private:
    Point shape_;
};

class GraphFlow : public Flow<AnyGraphFlow> {
  public:
    GraphFlow(std::int64_t sites, const Vertex* ends, const double* weights, std::size_t pairs,
              double scale, int bits);

    std::int64_t sites() const { return sites_; }
    static std::size_t bytes_needed(std::int64_t sites, std::int64_t pairs, int bits);

  private:
    std::int64_t sites_;
};

}  // namespace dope
