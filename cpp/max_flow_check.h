// The slow self-check of a solved flow: everything recomputed from the residual capacities.
#pragma once

#include <memory>
#include <string>

#include "max_flow.h"

namespace dope {

inline void require_law(bool holds, const char* law, Site v) {
    if (holds) return;
    throw std::runtime_error(std::string("self-check failed: ") + law + " (place " +
                             std::to_string(v) + ")");
}

// Capacities are in range, and every excess is minus the unary plus what flowed in.
template <class Network>
void MaxFlow<Network>::check_flow() const {
    constexpr std::int64_t kMost = Width<typename Network::Capacity>::kMostCapacity;
    Pause pause_checking;
    for_each_site([&](Site v, std::size_t i) {
        pause_checking(4 * network_.degree(v));
        std::int64_t twice_inflow = 0;
        for (Arc m = 0; m < network_.degree(v); ++m) {
            const Site u = network_.head(v, m);
            const Arc towards = network_.opposite(v, m);
            const std::int64_t forth = network_.residual(v, m);
            const std::int64_t back = network_.residual(u, towards);
            const bool child = u != v && parent_arc(u) == towards;
            require_law(!child || network_.is_open(v, m) || network_.is_open(u, towards),
                        "no site, also of other searches, has its parent behind a wall", v);
            require_law(forth >= 0 && back >= 0, "residual capacities are >= 0", v);
            require_law((forth + back) % 2 == 0 && (forth + back) / 2 <= kMost,
                        "both sides of a pair add up to twice a capacity", v);
            const bool shut = unary_.empty() && forth > 0;  // by a wall, perhaps
            require_law(network_.is_open(v, m) == (forth > 0) || shut,
                        "arcs that can carry flow are open", v);
            twice_inflow += forth - back;
        }
        if (unary_.empty()) return;
        const std::int64_t inflow = std::int64_t{at(excess_, v)} + clamped(unary_[i]);
        require_law(2 * inflow == twice_inflow, "excess is minus the unary plus the inflow", v);
    });
}

// The invariants at the head of max_flow.h.
template <class Network>
template <int side>
void MaxFlow<Network>::check_forest() const {
    const Forest& mine = side == kSource ? source_ : sink_;
    std::vector<bool> listed(excess_.size(), false);
    for (const Site v : mine.frontier) listed[static_cast<std::size_t>(v)] = true;
    Pause pause_checking;
    for_each_site([&](Site v, std::size_t) {
        pause_checking(4 * network_.degree(v));
        const Level mine_v = depth<side>(v);
        const bool root = network_.parent(v) == kRoot;
        require_law(root == (at(excess_, v) != 0), "roots are the sites with excess", v);
        if (mine_v == 0) require_law(network_.parent(v) == kNone, "free sites have no parent", v);
        if (mine_v <= 0) return;
        require_law(mine_v <= mine.depth, "no site is deeper than the frontier", v);
        if (mine_v == mine.depth && mine.listed()) {
            require_law(listed[static_cast<std::size_t>(v)], "the frontier is listed", v);
        }
        if (root) {
            require_law(side * at(excess_, v) > 0, "roots are in the forest of their sign", v);
        } else {
            const Arc m = parent_arc(v);
            require_law(m < network_.degree(v), "every site but a root has a parent", v);
            const Site u = network_.head(v, m);
            const bool open = side == kSource ? network_.is_open(u, network_.opposite(v, m))
                                              : network_.is_open(v, m);
            require_law(open, "the arc to the parent is open", v);
            require_law(depth<side>(u) == mine_v - 1, "parents are one less deep", v);
            const bool fresh = network_.parent(v) & kFresh;
            require_law(fresh || parent_at<side>(v, 0, mine_v - 1) == m,
                        "no arc before the parent's leads to another", v);
        }
        for (Arc m = 0; m < network_.degree(v); ++m) {
            const Site u = network_.head(v, m);
            const bool open = side == kSource ? network_.is_open(v, m)
                                              : network_.is_open(u, network_.opposite(v, m));
            if (!open) continue;
            if (depth<side>(u) > 0) {
                require_law(depth<side>(u) <= mine_v + 1, "open arcs lead at most one deeper", v);
            } else {
                require_law(mine_v == mine.depth, "scanned sites lead nowhere else", v);
            }
        }
    });
}

// The labels are what sources reach, no sink is among them, and their energy is the minimum.
template <class Network>
void MaxFlow<Network>::check_minimum() {
    const std::size_t sites = unary_.size();
    const auto labels_of = std::make_unique<bool[]>(sites);
    labels(false, labels_of.get(), Poll());

    std::vector<Site> queue;
    std::vector<bool> reached(excess_.size(), false);
    for_each_site([&](Site v, std::size_t) {
        if (at(excess_, v) <= 0) return;
        reached[static_cast<std::size_t>(v)] = true;
        queue.push_back(v);
    });
    Pause pause_checking;
    for (std::size_t k = 0; k < queue.size(); ++k) {
        const Site v = queue[k];
        pause_checking(4 * network_.degree(v));
        require_law(at(excess_, v) >= 0, "no source reaches a sink", v);
        for (Arc m = 0; m < network_.degree(v); ++m) {
            const auto u = static_cast<std::size_t>(network_.head(v, m));
            if (network_.residual(v, m) == 0 || reached[u]) continue;
            reached[u] = true;
            queue.push_back(static_cast<Site>(u));
        }
    }

    // Modulo 2^64: sums of many large capacities may exceed it, equal ones stay equal.
    std::uint64_t energy = 0;
    std::uint64_t twice_cut = 0;
    std::uint64_t minimum = 0;
    for_each_site([&](Site v, std::size_t i) {
        pause_checking(4);
        const bool label = reached[static_cast<std::size_t>(v)];
        require_law(labels_of[i] == label, "labels are what the sources reach", v);
        if (label) energy += static_cast<std::uint64_t>(std::int64_t{clamped(unary_[i])});
        if (at(excess_, v) > 0) minimum -= static_cast<std::uint64_t>(std::int64_t{at(excess_, v)});
        for (Arc m = 0; label && m < network_.degree(v); ++m) {
            const Site u = network_.head(v, m);
            if (reached[static_cast<std::size_t>(u)]) continue;
            const std::int64_t back = network_.residual(u, network_.opposite(v, m));
            twice_cut += static_cast<std::uint64_t>(network_.residual(v, m) + back);
        }
    });
    require_law(energy + twice_cut / 2 == minimum, "the value is the energy of the labels", -1);
}

template <class Network>
void MaxFlow<Network>::check() {
    require_solved();
    check_flow();
    check_forest<kSource>();
    check_forest<kSink>();
    if (!unary_.empty()) check_minimum();
}

}  // namespace dope
