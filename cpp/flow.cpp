#include "flow.h"

#include "max_flow_check.h"

namespace dope {

template class MaxFlow<SmallGridNetwork<std::int16_t>>;
template class MaxFlow<SmallGridNetwork<std::int32_t>>;
template class MaxFlow<SmallGridNetwork<std::int64_t>>;
template class MaxFlow<LargeGridNetwork<std::int16_t>>;
template class MaxFlow<LargeGridNetwork<std::int32_t>>;
template class MaxFlow<LargeGridNetwork<std::int64_t>>;
template class MaxFlow<GraphNetwork<std::int16_t>>;
template class MaxFlow<GraphNetwork<std::int32_t>>;
template class MaxFlow<GraphNetwork<std::int64_t>>;

namespace {

// make(a capacity of the right width), so that templates can tell the widths apart.
template <class Make>
auto with_width(int bits, Make&& make) {
    if (bits == 16) return make(std::int16_t{});
    if (bits == 32) return make(std::int32_t{});
    if (bits == 64) return make(std::int64_t{});
    throw std::invalid_argument("bits is " + std::to_string(bits) + ": expected 16, 32 or 64");
}

// The same for the networks of grids: make(the type of the network, as a null pointer).
template <class Make>
auto with_grid_network(std::size_t arcs, int bits, Make&& make) {
    return with_width(bits, [&](auto width) {
        using Small = SmallGridNetwork<decltype(width)>;
        using Large = LargeGridNetwork<decltype(width)>;
        return arcs <= Small::kMostArcs ? make(static_cast<Small*>(nullptr))
                                        : make(static_cast<Large*>(nullptr));
    });
}

AnyGridFlow grid_flow(const GridWeights& weights, double scale, int bits) {
    const GridLayout layout(weights.shape(), weights.offsets());
    return with_grid_network(layout.steps.size(), bits, [&](auto* network) -> AnyGridFlow {
        using Network = std::remove_pointer_t<decltype(network)>;
        return MaxFlow<Network>(Network(weights, scale), scale);
    });
}

AnyGraphFlow graph_flow(std::int64_t sites, const Vertex* ends, const double* weights,
                        std::size_t pairs, double scale, int bits) {
    return with_width(bits, [&](auto width) -> AnyGraphFlow {
        using Network = GraphNetwork<decltype(width)>;
        return MaxFlow<Network>(Network(sites, ends, weights, pairs, scale), scale);
    });
}

}  // namespace

GridFlow::GridFlow(const GridWeights& weights, double scale, int bits)
    : Flow(grid_flow(weights, scale, bits)), shape_(weights.shape()) {}

std::size_t GridFlow::bytes_needed(const Point& shape, const std::vector<Point>& offsets,
                                   int bits) {
    const GridLayout layout(shape, offsets);
    return with_grid_network(layout.steps.size(), bits, [&](auto* network) {
        using Network = std::remove_pointer_t<decltype(network)>;
        return MaxFlow<Network>::bytes_needed(Network::bytes_needed(layout),
                                              static_cast<std::size_t>(layout.sites),
                                              static_cast<std::size_t>(volume(shape)));
    });
}

GraphFlow::GraphFlow(std::int64_t sites, const Vertex* ends, const double* weights,
                     std::size_t pairs, double scale, int bits)
    : Flow(graph_flow(sites, ends, weights, pairs, scale, bits)), sites_(sites) {}

std::size_t GraphFlow::bytes_needed(std::int64_t sites, std::int64_t pairs, int bits) {
    const auto n = static_cast<std::size_t>(sites);
    return with_width(bits, [&](auto width) {
        using Network = GraphNetwork<decltype(width)>;
        return MaxFlow<Network>::bytes_needed(
            Network::bytes_needed(n, static_cast<std::size_t>(pairs)), n, n);
    });
}

}  // namespace dope
