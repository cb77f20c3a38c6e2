#include "block_flow_of.h"
#include "flow_of.h"
#include "graph_network.h"

namespace dope {

namespace {

// values[from(k)] for every place k, as the network has its sites; read where they are where
// nothing moves.
template <class T>
class Placed {
  public:
    Placed(const Site* from, const T* values, std::size_t sites) : values_(values) {
        if (!from || !values) return;
        moved_ = std::make_unique_for_overwrite<T[]>(sites);
        for_sites(sites, [&](std::size_t k) { moved_[k] = values[from[k]]; });
        values_ = moved_.get();
    }
    const T* data() const { return values_; }

    template <class Visit>
    static void for_sites(std::size_t sites, Visit&& visit) {
        in_pieces(static_cast<std::int64_t>(sites), [&](std::int64_t low, std::int64_t high) {
            for (auto k = static_cast<std::size_t>(low); k < static_cast<std::size_t>(high); ++k) {
                visit(k);
            }
        });
    }

  private:
    const T* values_;
    std::unique_ptr<T[]> moved_;
};

// read(out) writes a label for every place; they go to the caller's sites.
template <class Read>
void read_labels(const Site* to, std::size_t sites, bool* out, Read&& read) {
    if (!to) return read(out);
    const auto by_place = std::make_unique_for_overwrite<bool[]>(sites);
    read(by_place.get());
    Placed<bool>::for_sites(sites, [&](std::size_t k) { out[to[k]] = by_place[k]; });
}

template <class Capacity>
class GraphFlowOf final : public FlowOf<GraphFlow, GraphNetwork<Capacity>> {
  public:
    using Base = FlowOf<GraphFlow, GraphNetwork<Capacity>>;

    GraphFlowOf(GraphNetwork<Capacity> network, SiteOrder order, double scale)
        : Base(std::move(network), scale), order_(std::move(order)) {}

    std::int64_t sites() const override { return this->flow_.network().sites(); }
    void minimize(const double* unary, const Poll& poll) override {
        Base::minimize(Placed(order_.callers(), unary, size()).data(), poll);
    }
    void change(const std::int64_t* sites, const double* unary, std::size_t count,
                const Poll& poll) override {
        if (!order_.moves()) return Base::change(sites, unary, count, poll);
        std::vector<std::int64_t> places(sites, sites + count);
        for (std::int64_t& place : places) {
            // What is no site is refused there.
            if (place >= 0 && place < this->sites()) place = order_.place(static_cast<Site>(place));
        }
        Base::change(places.data(), unary, count, poll);
    }
    void labels(bool largest, bool* out, const Poll& poll) override {
        read_labels(order_.callers(), size(), out,
                    [&](bool* to) { Base::labels(largest, to, poll); });
    }
    std::size_t bytes() const override { return Base::bytes() + order_.bytes(); }

  private:
    std::size_t size() const { return static_cast<std::size_t>(sites()); }

    SiteOrder order_;
};

template <class Capacity>
class BlockGraphFlow final : public BlockFlowOf<GraphNetwork<Capacity>> {
  public:
    using Base = BlockFlowOf<GraphNetwork<Capacity>>;

    BlockGraphFlow(GraphNetwork<Capacity> network, SiteOrder order, double scale,
                   std::vector<std::int32_t> members, std::size_t number)
        : Base(std::move(network), scale), order_(std::move(order)) {
        if (order_.moves()) find_ranks(members, number);
        const Placed placed(order_.callers(), members.data(), members.size());
        if (order_.moves()) members.assign(placed.data(), placed.data() + members.size());
        this->network_.divide(std::move(members), number);
    }

    // It comes filled.
    std::size_t parts() const override { return 0; }
    void fill(std::size_t, const Poll&) override {}

    void price(std::size_t k, const double* unary, const double* before) override {
        const std::size_t size = this->sites(k);
        Base::price(k, Placed(ranks(k), unary, size).data(), Placed(ranks(k), before, size).data());
    }
    void labels(std::size_t k, bool of_all, bool* out) const override {
        read_labels(ranks(k), this->sites(k), out, [&](bool* to) { Base::labels(k, of_all, to); });
    }
    void bracket(std::size_t g, bool outside, bool* out, const Poll& poll) override {
        if (!order_.moves()) return Base::bracket(g, outside, out, poll);
        std::size_t all = 0;
        for (const std::size_t k : this->members(g)) all += this->sites(k);
        const auto by_place = std::make_unique_for_overwrite<bool[]>(all);
        Base::bracket(g, outside, by_place.get(), poll);
        const bool* found = by_place.get();
        for (const std::size_t k : this->members(g)) {
            const std::size_t size = this->sites(k);
            read_labels(ranks(k), size, out, [&](bool* to) { std::copy_n(found, size, to); });
            found += size;
            out += size;
        }
    }

    std::vector<WallFlow> flows(std::size_t k) const override {
        return of_callers(Base::flows(k), true);
    }
    std::vector<WallFlow> pushed() const override {
        std::vector<WallFlow> found = of_callers(Base::pushed(), true);
        std::sort(found.begin(), found.end(), [](const WallFlow& a, const WallFlow& b) {
            return std::pair(a.first, a.second) < std::pair(b.first, b.second);
        });
        return found;
    }
    std::vector<WallFlow> wall_flows(std::size_t k) const override {
        return of_callers(Base::wall_flows(k), false);
    }
    void impose(const std::vector<WallFlow>& flows) override { Base::impose(of_places(flows)); }
    void carry(std::size_t k, const std::vector<WallFlow>& flows) override {
        Base::carry(k, of_places(flows));
    }

    void hold(std::size_t k, const std::uint8_t* held) override {
        const auto all = static_cast<std::size_t>(this->network_.sites());
        Base::hold(k, Placed(order_.callers(), held, all).data());
    }
    void surround(const std::vector<Distance>& around) override {
        std::vector<Distance> there = around;
        for (Distance& one : there) one.site = order_.place(static_cast<Site>(one.site));
        Base::surround(there);
    }
    std::vector<Distance> border(std::size_t k) const override {
        std::vector<Distance> found = Base::border(k);
        for (Distance& one : found) one.site = order_.caller(static_cast<Site>(one.site));
        return found;
    }
    std::vector<std::int64_t> reach(std::size_t k, const std::vector<std::int64_t>& from) override {
        std::vector<std::int64_t> there = from;
        for (std::int64_t& site : there) site = order_.place(static_cast<Site>(site));
        std::vector<std::int64_t> found = Base::reach(k, there);
        for (std::int64_t& site : found) site = order_.caller(static_cast<Site>(site));
        return found;
    }
    std::size_t bytes() const override {
        return Base::bytes() + order_.bytes() + ranks_.size() * sizeof(Site);
    }

  private:
    // Block by block, its places in their order: which of the caller's sites of that block each is.
    void find_ranks(const std::vector<std::int32_t>& members, std::size_t number) {
        std::vector<Site> rank(members.size());
        std::vector<Site> next(number, 0);
        for (std::size_t i = 0; i < members.size(); ++i) {
            rank[i] = next[static_cast<std::size_t>(members[i])]++;
        }
        begins_.assign(number, 0);
        for (std::size_t k = 1; k < number; ++k) {
            begins_[k] = begins_[k - 1] + static_cast<std::size_t>(next[k - 1]);
        }
        std::vector<std::size_t> to = begins_;
        ranks_.resize(members.size());
        Placed<Site>::for_sites(members.size(), [&](std::size_t place) {
            const auto i = static_cast<std::size_t>(order_.callers()[place]);
            ranks_[to[static_cast<std::size_t>(members[i])]++] = rank[i];
        });
    }
    const Site* ranks(std::size_t k) const {
        return order_.moves() ? ranks_.data() + begins_[k] : nullptr;
    }

    std::vector<WallFlow> of_callers(std::vector<WallFlow> flows, bool rising) const {
        for (WallFlow& flow : flows) {
            flow.first = order_.caller(static_cast<Site>(flow.first));
            flow.second = order_.caller(static_cast<Site>(flow.second));
            if (!rising || flow.first < flow.second) continue;
            std::swap(flow.first, flow.second);
            flow.amount = -flow.amount;
        }
        return flows;
    }
    std::vector<WallFlow> of_places(std::vector<WallFlow> flows) const {
        for (WallFlow& flow : flows) {
            flow.first = order_.place(static_cast<Site>(flow.first));
            flow.second = order_.place(static_cast<Site>(flow.second));
        }
        return flows;
    }

    SiteOrder order_;
    std::vector<Site> ranks_;
    std::vector<std::size_t> begins_;
};

// make(network, order of its sites)
template <class Capacity, class Make>
auto with_network(std::int64_t sites, Ends ends, const double* weights, std::size_t pairs,
                  double scale, Make&& make) {
    const bool near = near_already(sites, ends, pairs);
    const auto for_each = [&](auto&& visit) {
        for (std::size_t e = 0; e < pairs; ++e) {
            visit(e, static_cast<Site>(ends.first(e)), static_cast<Site>(ends.second(e)),
                  weights[e]);
        }
    };
    if (near) return make(GraphNetwork<Capacity>(sites, pairs, scale, for_each), SiteOrder());
    NearRows<Capacity> found(GraphRows<Capacity>(sites, pairs, scale, for_each));
    GraphNetwork<Capacity> network(found.rows, found.order);
    return make(std::move(network), std::move(found.order));
}

}  // namespace

std::unique_ptr<BlockFlow> block_graph_flow(std::int64_t sites, Ends ends, const double* weights,
                                            std::size_t pairs, double scale, int bits,
                                            std::vector<std::int32_t> members, std::size_t number) {
    return with_width(bits, [&](auto width) -> std::unique_ptr<BlockFlow> {
        using Capacity = decltype(width);
        return with_network<Capacity>(
            sites, ends, weights, pairs, scale, [&](auto network, auto order) {
                return std::make_unique<BlockGraphFlow<Capacity>>(
                    std::move(network), std::move(order), scale, std::move(members), number);
            });
    });
}

std::unique_ptr<GraphFlow> graph_flow(std::int64_t sites, Ends ends, const double* weights,
                                      std::size_t pairs, double scale, int bits) {
    return with_width(bits, [&](auto width) -> std::unique_ptr<GraphFlow> {
        using Capacity = decltype(width);
        return with_network<Capacity>(sites, ends, weights, pairs, scale,
                                      [&](auto network, auto order) {
                                          return std::make_unique<GraphFlowOf<Capacity>>(
                                              std::move(network), std::move(order), scale);
                                      });
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
