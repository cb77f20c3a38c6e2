// A sparse graph as a network: the arcs of a site are consecutive, in the order of the caller's
// pairs.
#pragma once

#include <vector>

#include "capacities.h"
#include "flow.h"
#include "parent.h"

namespace dope {

template <class Capacity_>
class GraphNetwork {
  public:
    using Capacity = Capacity_;
    using Excess = typename Width<Capacity>::Excess;
    // A stored arc. 32 bits: a site may neighbor all others.
    using StoredArc = std::uint32_t;
    static constexpr std::int64_t kMostArcs = kMostSites - 2;

    // `ends` holds two vertices per pair; pairs are undirected, between different sites, each given
    // once.
    GraphNetwork(std::int64_t sites, const Vertex* ends, const double* weights, std::size_t pairs,
                 double scale)
        : rows_(checked_rows(sites)),
          heads_(2 * pairs),
          opposites_(2 * pairs),
          residual_(2 * pairs),
          level_(static_cast<std::size_t>(sites), 0),
          parent_(static_cast<std::size_t>(sites), Parent<StoredArc>::kNone) {
        require_scale(scale);
        for (std::size_t e = 0; e < 2 * pairs; ++e) {
            if (ends[e] < 0 || ends[e] >= sites) {
                throw std::invalid_argument("edge " + std::to_string(e / 2) + " ends at site " +
                                            std::to_string(ends[e]) + ": expected 0 to " +
                                            std::to_string(sites - 1));
            }
            ++rows_[static_cast<std::size_t>(ends[e]) + 1];
        }
        for (std::size_t v = 1; v < rows_.size(); ++v) rows_[v] += rows_[v - 1];

        std::vector<Arc> filled(static_cast<std::size_t>(sites), 0);
        std::vector<std::int64_t> sums(static_cast<std::size_t>(sites), 0);
        for (std::size_t e = 0; e < pairs; ++e) {
            const auto i = static_cast<Site>(ends[2 * e]);
            const auto j = static_cast<Site>(ends[2 * e + 1]);
            if (i == j) {
                throw std::invalid_argument("edge " + std::to_string(e) + " joins site " +
                                            std::to_string(i) + " to itself: expected two sites");
            }
            const double capacity = capacity_or_minus_one<Capacity>(weights[e], scale);
            if (capacity < 0.0) {
                refuse_weight<Capacity>(weights[e], scale, "of edge " + std::to_string(e));
            }
            const Arc from_i = filled[static_cast<std::size_t>(i)]++;
            const Arc from_j = filled[static_cast<std::size_t>(j)]++;
            place(i, from_i, j, from_j, static_cast<Capacity>(capacity));
            place(j, from_j, i, from_i, static_cast<Capacity>(capacity));
            for (const Site end : {i, j}) {
                auto& sum = sums[static_cast<std::size_t>(end)];
                sum += static_cast<std::int64_t>(capacity);
                require_sum<Capacity>(sum, "of site " + std::to_string(end));
                greatest_sum_ = std::max(greatest_sum_, static_cast<Excess>(sum));
            }
        }
    }

    static std::size_t bytes_needed(std::size_t sites, std::size_t pairs) {
        return (sites + 1) * sizeof(std::size_t) + sites * (sizeof(Level) + sizeof(StoredArc)) +
               2 * pairs * (sizeof(Site) + sizeof(Arc) + sizeof(Capacity));
    }
    std::size_t bytes() const { return bytes_needed(rows_.size() - 1, heads_.size() / 2); }

    Site sites() const { return static_cast<Site>(rows_.size() - 1); }
    Excess greatest_sum() const { return greatest_sum_; }

    Arc degree(Site v) const {
        const auto row = static_cast<std::size_t>(v);
        return static_cast<Arc>(rows_[row + 1] - rows_[row]);
    }
    Site head(Site v, Arc m) const { return heads_[slot(v, m)]; }
    Arc opposite(Site v, Arc m) const { return opposites_[slot(v, m)]; }
    Capacity residual(Site v, Arc m) const { return residual_[slot(v, m)]; }

    Level level(Site v) const { return level_[static_cast<std::size_t>(v)]; }
    void set_level(Site v, Level level) { level_[static_cast<std::size_t>(v)] = level; }
    StoredArc& parent(Site v) { return parent_[static_cast<std::size_t>(v)]; }
    StoredArc parent(Site v) const { return parent_[static_cast<std::size_t>(v)]; }
    void free_all() {
        std::fill(level_.begin(), level_.end(), 0);
        std::fill(parent_.begin(), parent_.end(), Parent<StoredArc>::kNone);
    }

    template <bool away, class Match, class Visit>
    void for_each_open(Site v, Arc from, Match match, Visit&& visit) const {
        const Arc arcs = degree(v);
        for (Arc m = from; m < arcs; ++m) {
            if (!match(level(head(v, m)))) continue;
            const bool open = away ? residual(v, m) > 0 : residual(head(v, m), opposite(v, m)) > 0;
            if (open && visit(m)) return;
        }
    }

    static constexpr Site kTogether = 1;
    template <class Match>
    bool none_near(Site, Match) const {
        return false;
    }

    template <bool, class Visit>
    void for_each_child(Site v, Level, Visit&& visit) const {
        const Arc arcs = degree(v);
        for (Arc m = 0; m < arcs; ++m) {
            const StoredArc up = parent(head(v, m)) & Parent<StoredArc>::kArc;
            if (up == static_cast<StoredArc>(opposite(v, m))) visit(m);
        }
    }

    // Moves flow from v to u over v's arc m, and returns whether that is closed now.
    bool push(Site v, Arc m, Site u, Excess amount) {
        Capacity& forth = residual_[slot(v, m)];
        Capacity& back = residual_[slot(u, opposite(v, m))];
        forth = static_cast<Capacity>(forth - amount);
        back = static_cast<Capacity>(back + amount);
        return forth == 0;
    }

    template <class Visit>
    void for_each_row(Visit&& visit) const {
        if (sites() > 0) visit(Site{0}, std::size_t{0}, sites());
    }
    std::size_t real_sites() const { return rows_.size() - 1; }
    Site place(std::size_t i) const { return static_cast<Site>(i); }

  private:
    static std::vector<std::size_t> checked_rows(std::int64_t sites) {
        if (sites < 0 || sites > kMostArcs) {
            throw std::invalid_argument("the graph has " + std::to_string(sites) +
                                        " sites: expected 0 to " + std::to_string(kMostArcs));
        }
        return std::vector<std::size_t>(static_cast<std::size_t>(sites) + 1, 0);
    }

    std::size_t slot(Site v, Arc m) const {
        return rows_[static_cast<std::size_t>(v)] + static_cast<std::size_t>(m);
    }

    void place(Site v, Arc m, Site head, Arc opposite, Capacity capacity) {
        heads_[slot(v, m)] = head;
        opposites_[slot(v, m)] = opposite;
        residual_[slot(v, m)] = capacity;
    }

    std::vector<std::size_t> rows_;  // where each site's arcs begin; arcs may outnumber 32 bits
    std::vector<Site> heads_;
    std::vector<Arc> opposites_;  // the arc back, by its place at the head
    std::vector<Capacity> residual_;
    std::vector<Level> level_;
    std::vector<StoredArc> parent_;
    Excess greatest_sum_ = 0;
};

}  // namespace dope
