// A sparse graph as a network: the arcs of a site are consecutive, in the order of the caller's
// pairs.
#pragma once

#include <vector>

#include "capacities.h"
#include "flow.h"
#include "function_ref.h"
#include "parent.h"
#include "pause.h"
#include "shared_array.h"

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
          level_(static_cast<std::size_t>(sites)),
          parent_(static_cast<std::size_t>(sites)) {
        std::fill(parent_.begin(), parent_.end(), Parent<StoredArc>::kNone);
        require_scale(scale);
        Pause pause;
        for (std::size_t e = 0; e < 2 * pairs; ++e) {
            pause(4);
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
            pause(32);
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
                if (sum > Width<Capacity>::kMostSum) {
                    require_sum<Capacity>(sum, "of site " + std::to_string(end));
                }
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
    void free_all(Site from, Site to) {
        std::fill(level_.begin() + from, level_.begin() + to, 0);
        std::fill(parent_.begin() + from, parent_.begin() + to, Parent<StoredArc>::kNone);
    }

    template <bool away, class Match, class Visit>
    void for_each_open(Site v, Arc from, Match match, Visit&& visit) const {
        const Arc arcs = degree(v);
        for (Arc m = from; m < arcs; ++m) {
            if (!match(level(head(v, m)))) continue;
            const bool open = away ? is_open(v, m) : is_open(head(v, m), opposite(v, m));
            if (open && visit(m)) return;
        }
    }

    static constexpr bool kHalves = false;
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

    // --- Walls: a shut arc keeps what could flow over it, and takes no part in a search ----------

    bool is_open(Site v, Arc m) const {
        return residual(v, m) > 0 && (shut_.empty() || !shut_[slot(v, m)]);
    }
    void shut(Site v, Arc m) { shut_[slot(v, m)] = true; }
    void unshut(Site v, Arc m) { shut_[slot(v, m)] = false; }
    // Nothing can flow over v's arc m any more, seen from v; the other end has to be told, too.
    void sever(Site v, Arc m) { residual_[slot(v, m)] = 0; }
    void push_over_wall(Site v, Arc m, Excess amount) { push(v, m, head(v, m), amount); }

    // --- Parts -----------------------------------------------------------------------------------

    // Runs of sites that follow one another.
    struct Run {
        Site first;
        Site length;
    };
    using Part = std::vector<Run>;

    Part everything() const { return sites() > 0 ? Part{{0, sites()}} : Part{}; }
    std::size_t sites_of(const Part& part) const {
        std::size_t number = 0;
        for (const Run run : part) number += static_cast<std::size_t>(run.length);
        return number;
    }
    template <class Visit>
    void for_each_row(const Part& part, Visit&& visit) const {
        for (const Run run : part) visit(run.first, run.length);
    }
    Site place(std::size_t i) const { return static_cast<Site>(i); }
    std::int64_t callers(Site v) const { return v; }

    // --- Blocks ----------------------------------------------------------------------------------

    // `members` says for every site which block it belongs to.
    void divide(std::vector<std::int32_t> members, std::size_t number) {
        members_ = std::move(members);
        parts_.assign(number, {});
        crossings_.assign(number, {});
        shut_ = SharedArray<bool>(heads_.size());
        Pause pause;
        for (Site v = 0; v < sites(); ++v) {
            pause(4 * (1 + degree(v)));
            Part& part = parts_[block_of(v)];
            const bool goes_on = !part.empty() && part.back().first + part.back().length == v;
            if (goes_on) {
                ++part.back().length;
            } else {
                part.push_back({v, 1});
            }
            for (Arc m = 0; m < degree(v); ++m) {
                if (block_of(head(v, m)) != block_of(v)) crossings_[block_of(v)].push_back({v, m});
            }
        }
    }
    std::size_t blocks() const { return parts_.size(); }
    const Part& block(std::size_t k) const { return parts_[k]; }
    std::size_t block_of(Site v) const {
        return static_cast<std::size_t>(members_[static_cast<std::size_t>(v)]);
    }
    std::vector<std::size_t> neighbors(std::size_t k) const {
        std::vector<std::size_t> found;
        for (const auto [v, m] : crossings_[k]) found.push_back(block_of(head(v, m)));
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        return found;
    }
    void for_each_crossing(std::size_t k, FunctionRef<bool(Site)> wanted,
                           FunctionRef<void(Site, Arc)> visit) const {
        for (const auto [v, m] : crossings_[k]) {
            if (wanted(v)) visit(v, m);
        }
    }

    // visit(bytes, number of them) for all that changes while flow moves.
    template <class Visit>
    void for_each_store(Visit&& visit) const {
        visit(residual_.data(), residual_.size() * sizeof(Capacity));
        visit(level_.data(), level_.size() * sizeof(Level));
        visit(parent_.data(), parent_.size() * sizeof(StoredArc));
        visit(shut_.data(), shut_.size() * sizeof(bool));
    }

    // A graph has no tiles.
    template <class Visit>
    void for_each_tile(std::size_t, bool, Visit&&) const {}

  private:
    static SharedArray<std::size_t> checked_rows(std::int64_t sites) {
        if (sites < 0 || sites > kMostArcs) {
            throw std::invalid_argument("the graph has " + std::to_string(sites) +
                                        " sites: expected 0 to " + std::to_string(kMostArcs));
        }
        return SharedArray<std::size_t>(static_cast<std::size_t>(sites) + 1);
    }

    std::size_t slot(Site v, Arc m) const {
        return rows_[static_cast<std::size_t>(v)] + static_cast<std::size_t>(m);
    }

    void place(Site v, Arc m, Site head, Arc opposite, Capacity capacity) {
        heads_[slot(v, m)] = head;
        opposites_[slot(v, m)] = opposite;
        residual_[slot(v, m)] = capacity;
    }

    struct Crossing {
        Site site;
        Arc arc;
    };

    SharedArray<std::size_t> rows_;  // where each site's arcs begin; arcs may outnumber 32 bits
    SharedArray<Site> heads_;
    SharedArray<Arc> opposites_;  // the arc back, by its place at the head
    SharedArray<Capacity> residual_;
    SharedArray<Level> level_;
    SharedArray<StoredArc> parent_;
    SharedArray<bool> shut_;  // empty while there are no walls
    Excess greatest_sum_ = 0;
    std::vector<std::int32_t> members_;
    std::vector<Part> parts_;
    std::vector<std::vector<Crossing>> crossings_;
};

}  // namespace dope
