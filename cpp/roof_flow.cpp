#include "roof_flow.h"

#include <atomic>
#include <queue>

#include "graph_network.h"
#include "max_flow.h"
#include "max_flow_check.h"

namespace dope {

namespace {

// The strongly connected components of some sites over open arcs between them (Tarjan 1972), and
// their topological order.
template <class Network>
class Components {
  public:
    // among(v) says whether v takes part.
    template <class Among>
    Components(const Network& network, Among&& among)
        : network_(network), nodes_(index(network.sites())) {
        for (Site v = 0; v < network.sites(); ++v)
            nodes_[index(v)].component = among(v) ? kNone : kOut;
        for (Site v = 0; v < network.sites(); ++v) {
            pause_(1);
            if (node(v).component == kNone) visit(v);
        }
    }

    std::int32_t of(Site v) const { return nodes_[index(v)].component; }

    // By component: its place in the order. Of those that may be next, the one that has the lowest
    // site comes first.
    std::vector<std::int32_t> order() {
        std::vector<std::int32_t> waiting(lowest_.size(), 0);
        std::vector<std::size_t> begins(lowest_.size() + 1, 0);
        for_each_lead([&](std::int32_t from, std::int32_t to) {
            ++begins[index(from) + 1];
            ++waiting[index(to)];
        });
        for (std::size_t k = 1; k < begins.size(); ++k) begins[k] += begins[k - 1];
        std::vector<std::size_t> next(begins.begin(), begins.end() - 1);
        std::vector<std::int32_t> leads(begins.back());
        for_each_lead([&](std::int32_t from, std::int32_t to) { leads[next[index(from)]++] = to; });

        using Next = std::pair<Site, std::int32_t>;
        std::priority_queue<Next, std::vector<Next>, std::greater<>> ready;
        for (std::size_t k = 0; k < waiting.size(); ++k) {
            if (waiting[k] == 0) ready.push({lowest_[k], static_cast<std::int32_t>(k)});
        }
        std::vector<std::int32_t> places(lowest_.size(), 0);
        for (std::int32_t place = 0; !ready.empty(); ++place) {
            pause_(4);
            const std::size_t k = index(ready.top().second);
            ready.pop();
            places[k] = place;
            for (std::size_t m = begins[k]; m < begins[k + 1]; ++m) {
                const std::int32_t to = leads[m];
                if (--waiting[index(to)] == 0) ready.push({lowest_[index(to)], to});
            }
        }
        return places;
    }

  private:
    static constexpr std::int32_t kNone = -1;  // as yet
    static constexpr std::int32_t kOut = -2;

    struct Node {
        std::uint32_t number = 0;  // in the order of the visits, from 1 on
        std::uint32_t low = 0;
        std::int32_t component = kOut;
    };
    struct Step {
        Site site;
        Arc next;
    };

    template <class Number>
    static std::size_t index(Number number) {
        return static_cast<std::size_t>(number);
    }
    Node& node(Site v) { return nodes_[index(v)]; }

    void begin(Site v) {
        node(v).number = node(v).low = ++count_;
        stack_.push_back(v);
        way_.push_back({v, 0});
    }

    void visit(Site root) {
        begin(root);
        while (!way_.empty()) {
            const Site v = way_.back().site;
            pause_(1);
            const Site u = next_unvisited(v, way_.back().next);
            if (u >= 0) {
                begin(u);
                continue;
            }
            way_.pop_back();
            if (!way_.empty()) {
                Node& above = node(way_.back().site);
                above.low = std::min(above.low, node(v).low);
            }
            if (node(v).low == node(v).number) close(v);
        }
    }

    // Looks at v's arcs from m on, up to one that leads to a new site; -1 where there is none.
    Site next_unvisited(Site v, Arc& m) {
        Node& here = node(v);
        for (const Arc arcs = network_.degree(v); m < arcs;) {
            const Site u = network_.head(v, m);
            const bool open = network_.residual(v, m) > 0;
            ++m;
            const Node& there = node(u);
            if (!open || there.component != kNone) continue;
            if (there.number == 0) return u;
            here.low = std::min(here.low, there.number);
        }
        return -1;
    }

    // The component of v lies on the stack, down to v.
    void close(Site v) {
        Site lowest = v;
        Site u = -1;
        do {
            u = stack_.back();
            stack_.pop_back();
            node(u).component = static_cast<std::int32_t>(lowest_.size());
            lowest = std::min(lowest, u);
        } while (u != v);
        lowest_.push_back(lowest);
    }

    // visit(component, another one) for every open arc between them.
    template <class Visit>
    void for_each_lead(Visit&& visit) {
        for (Site v = 0; v < network_.sites(); ++v) {
            pause_(1);
            const std::int32_t from = of(v);
            if (from < 0) continue;
            for (Arc m = 0; m < network_.degree(v); ++m) {
                const std::int32_t to = of(network_.head(v, m));
                if (to >= 0 && to != from && network_.residual(v, m) > 0) visit(from, to);
            }
        }
    }

    const Network& network_;
    Pause pause_;
    std::vector<Node> nodes_;
    std::uint32_t count_ = 0;
    std::vector<Site> stack_;
    std::vector<Step> way_;
    std::vector<Site> lowest_;  // of a component
};

// One thread at a time: another one is refused.
class Turn {
  public:
    explicit Turn(std::atomic<bool>& busy) : busy_(busy) {
        if (busy_.exchange(true)) {
            throw std::runtime_error(
                "this flow is at work in another thread: expected one thread at a time");
        }
    }
    ~Turn() { busy_ = false; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

  private:
    std::atomic<bool>& busy_;
};

template <class Capacity>
class RoofFlowOf final : public RoofFlow {
  public:
    using Network = GraphNetwork<Capacity>;

    RoofFlowOf(Network network, double scale)
        : flow_(std::move(network), scale), twice_(index(flow_.network().sites())) {}

    std::int64_t sites() const override { return flow_.network().sites() / 2; }

    void minimize(const double* unary, const Poll& poll) override {
        const Turn turn(busy_);
        for (std::size_t i = 0; i < twice_.size() / 2; ++i) {
            twice_[2 * i] = unary[i];
            twice_[2 * i + 1] = -unary[i];
        }
        flow_.minimize(twice_.data(), poll);
    }

    void change(const std::int64_t* sites, const double* unary, std::size_t count,
                const Poll& poll) override {
        const Turn turn(busy_);
        std::vector<std::int64_t> places;
        std::vector<double> prices;
        for (std::size_t k = 0; k < count; ++k) {
            places.insert(places.end(), {2 * sites[k], 2 * sites[k] + 1});
            prices.insert(prices.end(), {unary[k], -unary[k]});
        }
        flow_.change(places.data(), prices.data(), places.size(), poll);
    }

    void labels(bool of_some, bool* known, bool* label, const Poll& poll) override {
        const Turn turn(busy_);
        const std::size_t size = twice_.size();
        const auto reached = std::make_unique_for_overwrite<bool[]>(size);
        flow_.labels(false, reached.get(), poll);
        bool all = true;
        for (std::size_t i = 0; i < size / 2; ++i) {
            known[i] = reached[2 * i] || reached[2 * i + 1];
            label[i] = reached[2 * i];
            all &= known[i];
        }
        if (of_some && !all) add_implied(known, label);
    }

    ExactSum minimum() const override {
        const Turn turn(busy_);
        return flow_.minimum();
    }
    void check() override {
        const Turn turn(busy_);
        flow_.check();
    }
    std::size_t bytes() const override { return flow_.bytes() + twice_.size() * sizeof(double); }

  private:
    static std::size_t index(Site number) { return static_cast<std::size_t>(number); }

    void add_implied(bool* known, bool* label) {
        Components<Network> components(flow_.network(), [&](Site v) { return !known[v / 2]; });
        const auto component = [&](std::size_t i, std::size_t layer) {
            return components.of(static_cast<Site>(2 * i + layer));
        };
        std::vector<std::int32_t> place;
        for (std::size_t i = 0; i < twice_.size() / 2; ++i) {
            if (known[i] || component(i, 0) == component(i, 1)) continue;
            if (place.empty()) place = components.order();
            known[i] = true;
            label[i] = place[index(component(i, 0))] > place[index(component(i, 1))];
        }
    }

    MaxFlow<Network> flow_;
    mutable std::atomic<bool> busy_{false};
    std::vector<double> twice_;  // the unary of y and y'
};

}  // namespace

std::unique_ptr<RoofFlow> roof_flow(std::int64_t sites, Ends ends, const double* weights,
                                    std::size_t pairs, double scale, int bits) {
    if (sites > kMostSites / 2) {
        throw std::invalid_argument("the graph has " + std::to_string(sites) +
                                    " sites: expected 0 to " + std::to_string(kMostSites / 2));
    }
    return with_width(bits, [&](auto width) -> std::unique_ptr<RoofFlow> {
        using Capacity = decltype(width);
        near_already(sites, ends, pairs);
        GraphNetwork<Capacity> network(2 * sites, 2 * pairs, scale, [&](auto&& visit) {
            for (std::size_t e = 0; e < pairs; ++e) {
                const auto i = static_cast<Site>(2 * ends.first(e));
                const auto j = static_cast<Site>(2 * ends.second(e));
                const bool crossed = weights[e] < 0.0;
                visit(e, i, j + crossed, std::fabs(weights[e]));
                visit(e, i + 1, j + !crossed, std::fabs(weights[e]));
            }
        });
        return std::make_unique<RoofFlowOf<Capacity>>(std::move(network), scale);
    });
}

}  // namespace dope
