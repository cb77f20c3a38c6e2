#include "roof_flow.h"

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
    // `among[v]` says whether v takes part.
    Components(const Network& network, const std::vector<char>& among)
        : network_(network),
          of_(among.size(), -1),
          number_(among.size(), among.size()),
          low_(among.size(), 0) {
        for (Site v = 0; v < network.sites(); ++v) {
            pause_(1);
            if (among[index(v)] && number_[index(v)] == among.size()) visit(v, among);
        }
        sort(among);
    }

    // Components are numbered in the order.
    std::int32_t of(Site v) const { return place_[index(of_[index(v)])]; }

  private:
    struct Step {
        Site site;
        Arc next;
    };

    template <class Number>
    static std::size_t index(Number number) {
        return static_cast<std::size_t>(number);
    }

    void begin(Site v) {
        number_[index(v)] = low_[index(v)] = count_++;
        stack_.push_back(v);
        way_.push_back({v, 0});
    }

    void visit(Site root, const std::vector<char>& among) {
        begin(root);
        while (!way_.empty()) {
            const Site v = way_.back().site;
            pause_(1);
            bool deeper = false;
            const Arc arcs = network_.degree(v);
            while (!deeper && way_.back().next < arcs) {
                const Arc m = way_.back().next++;
                const Site u = network_.head(v, m);
                if (network_.residual(v, m) == 0 || !among[index(u)]) continue;
                if (number_[index(u)] == among.size()) {
                    begin(u);
                    deeper = true;
                } else if (of_[index(u)] < 0) {
                    low_[index(v)] = std::min(low_[index(v)], number_[index(u)]);
                }
            }
            if (deeper) continue;
            way_.pop_back();
            if (!way_.empty()) {
                auto& above = low_[index(way_.back().site)];
                above = std::min(above, low_[index(v)]);
            }
            if (low_[index(v)] == number_[index(v)]) close(v);
        }
    }

    // The component of v lies on the stack, down to v.
    void close(Site v) {
        Site lowest = v;
        Site u = -1;
        do {
            u = stack_.back();
            stack_.pop_back();
            of_[index(u)] = static_cast<std::int32_t>(lowest_.size());
            lowest = std::min(lowest, u);
        } while (u != v);
        lowest_.push_back(lowest);
    }

    void sort(const std::vector<char>& among) {
        std::vector<std::int32_t> waiting(lowest_.size(), 0);
        std::vector<std::vector<std::int32_t>> leads(lowest_.size());
        for (Site v = 0; v < network_.sites(); ++v) {
            pause_(1);
            if (!among[index(v)]) continue;
            for (Arc m = 0; m < network_.degree(v); ++m) {
                const Site u = network_.head(v, m);
                if (network_.residual(v, m) == 0 || !among[index(u)]) continue;
                const std::int32_t from = of_[index(v)];
                const std::int32_t to = of_[index(u)];
                if (from == to) continue;
                leads[index(from)].push_back(to);
                ++waiting[index(to)];
            }
        }
        using Next = std::pair<Site, std::int32_t>;
        std::priority_queue<Next, std::vector<Next>, std::greater<>> ready;
        for (std::size_t k = 0; k < waiting.size(); ++k) {
            if (waiting[k] == 0) ready.push({lowest_[k], static_cast<std::int32_t>(k)});
        }
        place_.resize(lowest_.size());
        for (std::int32_t place = 0; !ready.empty(); ++place) {
            pause_(4);
            const std::int32_t k = ready.top().second;
            ready.pop();
            place_[index(k)] = place;
            for (const std::int32_t to : leads[index(k)]) {
                if (--waiting[index(to)] == 0) ready.push({lowest_[index(to)], to});
            }
        }
    }

    const Network& network_;
    Pause pause_;
    std::vector<std::int32_t> of_;
    std::vector<std::size_t> number_;  // in the order of the visits
    std::vector<std::size_t> low_;
    std::size_t count_ = 0;
    std::vector<Site> stack_;
    std::vector<Step> way_;
    std::vector<Site> lowest_;  // of a component
    std::vector<std::int32_t> place_;
};

template <class Capacity>
class RoofFlowOf final : public RoofFlow {
  public:
    using Network = GraphNetwork<Capacity>;

    RoofFlowOf(const GraphRows<Capacity>& rows, double scale)
        : flow_(Network(rows, SiteOrder()), scale), twice_(index(rows.sites())) {}

    std::int64_t sites() const override { return flow_.network().sites() / 2; }

    void minimize(const double* unary, const Poll& poll) override {
        for (std::size_t i = 0; i < twice_.size() / 2; ++i) {
            twice_[2 * i] = unary[i];
            twice_[2 * i + 1] = -unary[i];
        }
        flow_.minimize(twice_.data(), poll);
    }

    void change(const std::int64_t* sites, const double* unary, std::size_t count,
                const Poll& poll) override {
        std::vector<std::int64_t> places;
        std::vector<double> prices;
        for (std::size_t k = 0; k < count; ++k) {
            places.insert(places.end(), {2 * sites[k], 2 * sites[k] + 1});
            prices.insert(prices.end(), {unary[k], -unary[k]});
        }
        flow_.change(places.data(), prices.data(), places.size(), poll);
    }

    void labels(bool of_some, bool* known, bool* label, const Poll& poll) override {
        const std::size_t size = twice_.size();
        const auto reached = std::make_unique_for_overwrite<bool[]>(size);
        flow_.labels(false, reached.get(), poll);
        std::vector<char> open(size, 0);
        bool any = false;
        for (std::size_t i = 0; i < size / 2; ++i) {
            known[i] = reached[2 * i] || reached[2 * i + 1];
            label[i] = reached[2 * i];
            open[2 * i] = open[2 * i + 1] = !known[i];
            any |= !known[i];
        }
        if (!of_some || !any) return;
        const Components<Network> components(flow_.network(), open);
        for (std::size_t i = 0; i < size / 2; ++i) {
            if (known[i]) continue;
            const std::int32_t one = components.of(static_cast<Site>(2 * i));
            const std::int32_t other = components.of(static_cast<Site>(2 * i + 1));
            known[i] = one != other;
            label[i] = one > other;
        }
    }

    ExactSum minimum() const override { return flow_.minimum(); }
    void check() override { flow_.check(); }
    std::size_t bytes() const override { return flow_.bytes() + twice_.size() * sizeof(double); }

  private:
    static std::size_t index(Site number) { return static_cast<std::size_t>(number); }

    MaxFlow<Network> flow_;
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
        using Rows = GraphRows<decltype(width)>;
        Rows::require_edges(sites, ends, pairs);
        const Rows rows(2 * sites, 2 * pairs, scale, [&](auto&& visit) {
            for (std::size_t e = 0; e < pairs; ++e) {
                const auto i = static_cast<Site>(2 * ends.first(e));
                const auto j = static_cast<Site>(2 * ends.second(e));
                const bool crossed = weights[e] < 0.0;
                visit(e, i, j + crossed, std::fabs(weights[e]));
                visit(e, i + 1, j + !crossed, std::fabs(weights[e]));
            }
        });
        return std::make_unique<RoofFlowOf<decltype(width)>>(rows, scale);
    });
}

}  // namespace dope
