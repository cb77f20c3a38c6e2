// The pairs of a sparse graph by sites, and an order of sites in which neighbors are near.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capacities.h"
#include "flow.h"
#include "pause.h"

namespace dope {

// The pairs of every site: half a pair with each of its ends, in the order of the caller's pairs.
// Pairs are undirected and between different sites.
template <class Capacity>
struct GraphRows {
    struct Half {
        Site head;
        Capacity capacity;
    };

    static constexpr std::int64_t kMost = kMostSites - 2;

    GraphRows(std::int64_t sites, Ends ends, const double* weights, std::size_t pairs, double scale)
        : GraphRows(sites, pairs, scale, [&](auto&& visit) {
              require_edges(sites, ends, pairs);
              for (std::size_t e = 0; e < pairs; ++e) {
                  visit(e, static_cast<Site>(ends.first(e)), static_cast<Site>(ends.second(e)),
                        weights[e]);
              }
          }) {}

    // for_each(visit): visit(edge, site, other site, weight) of `pairs` pairs, the same each time.
    template <class ForEach>
    GraphRows(std::int64_t sites, std::size_t pairs, double scale, ForEach&& for_each)
        : begins(checked(sites) + 1, 0),
          number(2 * pairs),
          halves(std::make_unique_for_overwrite<Half[]>(number)) {
        require_scale(scale);
        Pause pause;
        for_each([&](std::size_t, Site i, Site j, double) {
            pause(4);
            ++begins[static_cast<std::size_t>(i) + 1];
            ++begins[static_cast<std::size_t>(j) + 1];
        });
        for (std::size_t v = 1; v < begins.size(); ++v) begins[v] += begins[v - 1];
        std::vector<std::size_t> next(begins.begin(), begins.end() - 1);
        std::vector<std::int64_t> sums(next.size(), 0);
        for_each([&](std::size_t e, Site i, Site j, double weight) {
            pause(16);
            const double capacity = capacity_or_minus_one<Capacity>(weight, scale);
            if (capacity < 0.0) {
                refuse_weight<Capacity>(weight, scale, "of edge " + std::to_string(e));
            }
            for (const auto& [end, head] : {std::pair(i, j), std::pair(j, i)}) {
                const auto v = static_cast<std::size_t>(end);
                halves[next[v]++] = {head, static_cast<Capacity>(capacity)};
                sums[v] += static_cast<std::int64_t>(capacity);
                if (sums[v] > Width<Capacity>::kMostSum) {
                    require_sum<Capacity>(sums[v], "of site " + std::to_string(v));
                }
            }
        });
        for (const std::int64_t sum : sums) greatest_sum = std::max(greatest_sum, sum);
    }

    static void require_edges(std::int64_t sites, Ends ends, std::size_t pairs) {
        in_pieces(static_cast<std::int64_t>(pairs), [&](std::int64_t low, std::int64_t high) {
            for (auto e = static_cast<std::size_t>(low); e < static_cast<std::size_t>(high); ++e) {
                require_edge(sites, e, ends.first(e), ends.second(e));
            }
        });
    }

    Site sites() const { return static_cast<Site>(begins.size() - 1); }
    std::pair<std::size_t, std::size_t> of(Site v) const {
        return {begins[static_cast<std::size_t>(v)], begins[static_cast<std::size_t>(v) + 1]};
    }

    std::vector<std::size_t> begins;  // where a site's halves begin, and where all end
    std::size_t number;
    std::unique_ptr<Half[]> halves;
    std::int64_t greatest_sum = 0;  // of the capacities of a site

  private:
    static std::size_t checked(std::int64_t sites) {
        if (sites < 0 || sites > kMost) {
            throw std::invalid_argument("the graph has " + std::to_string(sites) +
                                        " sites: expected 0 to " + std::to_string(kMost));
        }
        return static_cast<std::size_t>(sites);
    }

    static void require_edge(std::int64_t sites, std::size_t e, Vertex first, Vertex second) {
        for (const Vertex end : {first, second}) {
            if (end >= 0 && end < sites) continue;
            throw std::invalid_argument("edge " + std::to_string(e) + " ends at site " +
                                        std::to_string(end) + ": expected 0 to " +
                                        std::to_string(sites - 1));
        }
        if (first == second) {
            throw std::invalid_argument("edge " + std::to_string(e) + " joins site " +
                                        std::to_string(first) + " to itself: expected two sites");
        }
    }
};

// Where sites are kept, and whose places are whose; nothing where all stay where they are.
class SiteOrder {
  public:
    SiteOrder() = default;
    // By the sites in their order.
    explicit SiteOrder(std::vector<Site> callers)
        : callers_(std::move(callers)), places_(callers_.size()) {
        for (std::size_t k = 0; k < callers_.size(); ++k) {
            places_[static_cast<std::size_t>(callers_[k])] = static_cast<Site>(k);
        }
    }

    bool moves() const { return !callers_.empty(); }
    const Site* callers() const { return moves() ? callers_.data() : nullptr; }
    Site caller(Site place) const {
        return moves() ? callers_[static_cast<std::size_t>(place)] : place;
    }
    Site place(Site caller) const {
        return moves() ? places_[static_cast<std::size_t>(caller)] : caller;
    }
    std::size_t bytes() const { return 2 * callers_.size() * sizeof(Site); }

  private:
    std::vector<Site> callers_;
    std::vector<Site> places_;
};

// An order in which most neighbors are near each other, so that what a search looks at is in the
// cache: breadth first. Sites stay where they are if most of their neighbors are near already.
template <class Capacity>
SiteOrder near_order(const GraphRows<Capacity>& rows) {
    constexpr Site kNear = 1 << 12;
    constexpr Site kSmall = 1 << 14;
    if (rows.sites() < kSmall) return {};
    Pause pause;
    std::size_t far = 0;
    for (Site v = 0; v < rows.sites(); ++v) {
        const auto [from, to] = rows.of(v);
        pause(static_cast<std::int64_t>(1 + to - from));
        for (std::size_t k = from; k < to; ++k) far += std::abs(rows.halves[k].head - v) > kNear;
    }
    if (4 * far < rows.number) return {};

    std::vector<Site> order;
    order.reserve(static_cast<std::size_t>(rows.sites()));
    std::vector<char> seen(static_cast<std::size_t>(rows.sites()), 0);
    const auto enlist = [&](Site v) {
        if (seen[static_cast<std::size_t>(v)]) return;
        seen[static_cast<std::size_t>(v)] = 1;
        order.push_back(v);
    };
    std::size_t next = 0;
    for (Site root = 0; root < rows.sites(); ++root) {
        enlist(root);
        for (; next < order.size(); ++next) {
            const auto [from, to] = rows.of(order[next]);
            pause(static_cast<std::int64_t>(8 + 2 * (to - from)));
            for (std::size_t k = from; k < to; ++k) enlist(rows.halves[k].head);
        }
    }
    return SiteOrder(std::move(order));
}

}  // namespace dope
