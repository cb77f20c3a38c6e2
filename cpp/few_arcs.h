// The sites of a grid whose kernel has few neighbors: all that a search asks of a site lies in one
// record, and what it asks of the neighbors is asked of all at once, without branches.
#pragma once

#include <array>
#include <bit>

#include "capacities.h"
#include "grid_layout.h"
#include "matches.h"
#include "parent.h"
#include "shared_array.h"

namespace dope {

template <class Capacity_, int kArcs>
class FewArcs {
  public:
    using Capacity = Capacity_;
    using Excess = typename Width<Capacity>::Excess;
    using StoredArc = std::uint8_t;
    using OpenSet = std::uint8_t;  // a bit per arc
    static constexpr bool kHalves = true;
    using Wider = FewArcs<typename Width<Capacity>::Wider, kArcs>;  // for sums of capacities
    static_assert(kArcs <= 8);

    explicit FewArcs(GridLayout& layout) : records_(static_cast<std::size_t>(layout.sites)) {
        layout.add_idle_arcs(kArcs);
        std::copy(layout.steps.begin(), layout.steps.end(), steps_.begin());
    }

    static bool suits(const GridLayout& layout) { return layout.steps.size() <= kArcs; }
    static std::size_t bytes_needed(const GridLayout& layout) {
        return static_cast<std::size_t>(layout.sites) * sizeof(Record);
    }

    Site sites() const { return static_cast<Site>(records_.size()); }  // with padding
    Arc degree(Site) const { return kArcs; }
    Site head(Site v, Arc m) const { return v + steps_[static_cast<std::size_t>(m)]; }
    Arc opposite(Site, Arc m) const { return kArcs - 1 - m; }
    Capacity* residuals(Site v) { return at(v).residual; }
    Capacity residual(Site v, Arc m) const { return at(v).residual[m]; }

    Level level(Site v) const { return at(v).level; }
    void set_level(Site v, Level level) { at(v).level = level; }
    StoredArc& parent(Site v) { return at(v).parent; }
    StoredArc parent(Site v) const { return at(v).parent; }
    void free_all(Site from, Site to) {
        for (Site v = from; v < to; ++v) {
            at(v).level = 0;
            at(v).parent = Parent<StoredArc>::kNone;
        }
    }

    template <bool away, class Match, class Visit>
    void for_each_open(Site v, Arc from, Match match, Visit&& visit) const {
        unsigned found = 0;
        for (int m = 0; m < kArcs; ++m) {
            found |= unsigned{match(at(v + steps_[static_cast<std::size_t>(m)]).level)} << m;
        }
        found &= away ? at(v).away : at(v).towards;
        for (found = found >> from << from; found; found &= found - 1) {
            if (visit(static_cast<Arc>(std::countr_zero(found)))) return;
        }
    }

    static constexpr Site kTogether = 1;
    template <class Match>
    bool none_near(Site, Match) const {
        return false;
    }

    template <bool, class Visit>
    void for_each_child(Site v, Level, Visit&& visit) const {
        unsigned found = 0;
        for (int m = 0; m < kArcs; ++m) {
            const StoredArc up = at(v + steps_[static_cast<std::size_t>(m)]).parent;
            found |= unsigned{(up & Parent<StoredArc>::kArc) == kArcs - 1 - m} << m;
        }
        for (; found; found &= found - 1) visit(static_cast<Arc>(std::countr_zero(found)));
    }

    // Moves flow from v to u over v's arc m, and returns whether that is closed now.
    bool push(Site v, Arc m, Site u, Excess amount) {
        Record& tail = at(v);
        Record& head = at(u);
        const Arc back_arc = kArcs - 1 - m;
        Capacity& forth = tail.residual[m];
        Capacity& back = head.residual[back_arc];
        if (back == 0) {
            insert(head.away, back_arc);
            insert(tail.towards, m);
        }
        forth = static_cast<Capacity>(forth - amount);
        back = static_cast<Capacity>(back + amount);
        if (forth != 0) return false;
        erase(tail.away, m);
        erase(head.towards, back_arc);
        return true;
    }

    // --- Walls: a shut arc keeps what could flow over it, and takes no part in a search ----------

    bool is_open(Site v, Arc m) const { return at(v).away >> m & 1U; }
    void shut(Site v, Arc m) {
        erase(at(v).away, m);
        erase(at(v).towards, m);
    }
    // Opens v's arc m again, both ways, as far as something can flow.
    void unshut(Site v, Arc m) {
        if (residual(v, m) > 0) insert(at(v).away, m);
        if (residual(head(v, m), opposite(v, m)) > 0) insert(at(v).towards, m);
    }
    // Nothing can flow over v's arc m any more, seen from v; the other end has to be told, too.
    void sever(Site v, Arc m) {
        at(v).residual[m] = 0;
        shut(v, m);
    }
    void push_over_wall(Site v, Arc m, Excess amount) {
        Capacity& forth = at(v).residual[m];
        Capacity& back = at(head(v, m)).residual[opposite(v, m)];
        forth = static_cast<Capacity>(forth - amount);
        back = static_cast<Capacity>(back + amount);
    }

    // --- While the network is filled -------------------------------------------------------------

    OpenSet none_open() const { return 0; }
    static void insert(OpenSet& set, Arc m) { set = static_cast<OpenSet>(set | 1U << m); }
    static void erase(OpenSet& set, Arc m) { set = static_cast<OpenSet>(set & ~(1U << m)); }
    void set_open(Site v, const OpenSet& set) { at(v).away = at(v).towards = set; }

    // visit(bytes, number of them) for all that changes while flow moves.
    template <class Visit>
    void for_each_store(Visit&& visit) const {
        visit(records_.data(), records_.size() * sizeof(Record));
    }

  private:
    struct Record {
        Capacity residual[kArcs];
        Level level;
        OpenSet away;     // the arcs that can carry flow away from the site
        OpenSet towards;  // those whose opposites can carry flow towards it
        StoredArc parent;
    };

    Record& at(Site v) { return records_[static_cast<std::size_t>(v)]; }
    const Record& at(Site v) const { return records_[static_cast<std::size_t>(v)]; }

    std::array<Site, kArcs> steps_{};
    SharedArray<Record> records_;
};

}  // namespace dope
