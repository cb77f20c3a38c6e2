#include "block_flow_of.h"
#include "flow_of.h"
#include "graph_network.h"

namespace dope {

namespace {

template <class Capacity>
class GraphFlowOf final : public FlowOf<GraphFlow, GraphNetwork<Capacity>> {
  public:
    using FlowOf<GraphFlow, GraphNetwork<Capacity>>::FlowOf;
    std::int64_t sites() const override { return this->flow_.network().sites(); }
};

template <class Capacity>
class BlockGraphFlow final : public BlockFlowOf<GraphNetwork<Capacity>> {
  public:
    BlockGraphFlow(GraphNetwork<Capacity> network, double scale, std::vector<std::int32_t> members,
                   std::size_t number)
        : BlockFlowOf<GraphNetwork<Capacity>>(std::move(network), scale) {
        this->network_.divide(std::move(members), number);
    }

    // It comes filled.
    std::size_t parts() const override { return 0; }
    void fill(std::size_t, const Poll&) override {}
};

}  // namespace

std::unique_ptr<BlockFlow> block_graph_flow(std::int64_t sites, const Vertex* ends,
                                            const double* weights, std::size_t pairs, double scale,
                                            int bits, std::vector<std::int32_t> members,
                                            std::size_t number) {
    return with_width(bits, [&](auto width) -> std::unique_ptr<BlockFlow> {
        using Network = GraphNetwork<decltype(width)>;
        return std::make_unique<BlockGraphFlow<decltype(width)>>(
            Network(sites, ends, weights, pairs, scale), scale, std::move(members), number);
    });
}

std::unique_ptr<GraphFlow> graph_flow(std::int64_t sites, const Vertex* ends, const double* weights,
                                      std::size_t pairs, double scale, int bits) {
    return with_width(bits, [&](auto width) -> std::unique_ptr<GraphFlow> {
        using Network = GraphNetwork<decltype(width)>;
        return std::make_unique<GraphFlowOf<decltype(width)>>(
            Network(sites, ends, weights, pairs, scale), scale);
    });
}

std::size_t graph_flow_bytes(std::int64_t sites, std::int64_t pairs, int bits) {
    if (sites < 0 || pairs < 0) {
        throw std::invalid_argument(std::to_string(sites) + " sites and " + std::to_string(pairs) +
                                    " pairs: expected 0 or more of each");
    }
    const auto n = static_cast<std::size_t>(sites);
    return with_width(bits, [&](auto width) {
        using Network = GraphNetwork<decltype(width)>;
        return MaxFlow<Network>::bytes_needed(
            Network::bytes_needed(n, static_cast<std::size_t>(pairs)), n, n);
    });
}

}  // namespace dope
