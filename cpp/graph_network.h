// A sparse graph as a network: a record per site, and the arcs of a site one after the other, in
// the order of the caller's pairs where sites keep their numbers. What is asked of a neighbor lies
// together, since in a graph every neighbor is likely a cache line of its own; and an arc knows
// what can still flow back, so that nobody has to look at the other end of it.
#pragma once

#include <utility>
#include <vector>

#include "capacities.h"
#include "flow.h"
#include "function_ref.h"
#include "graph_rows.h"
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

    // for_each(visit): visit(edge, site, other site, weight) of `pairs` pairs, the same each time.
    // Sites stay where they are, and arcs come in the order of their pairs.
    template <class ForEach>
    GraphNetwork(std::int64_t sites, std::size_t pairs, double scale, ForEach&& for_each)
        : records_(GraphRows<Capacity>::checked(sites) + 1), arcs_(2 * pairs) {
        require_scale(scale);
        Pause pause;
        for_each([&](std::size_t, Site i, Site j, double) {
            pause(4);
            ++record(i).begin;
            ++record(j).begin;
        });
        std::size_t begin = 0;
        for (Record& one : records_) {
            one.parent = Parent<StoredArc>::kNone;
            begin += std::exchange(one.begin, begin);
        }
        std::vector<Arc> filled(records_.size(), 0);
        for_each([&](std::size_t e, Site i, Site j, double weight) {
            pause(16);
            const double capacity = capacity_or_minus_one<Capacity>(weight, scale);
            if (capacity < 0.0) {
                refuse_weight<Capacity>(weight, scale, "of edge " + std::to_string(e));
            }
            join(i, j, static_cast<Capacity>(capacity), filled);
        });
        for (Site v = 0; v < this->sites(); ++v) {
            pause(1 + degree(v));
            std::int64_t sum = 0;
            for (Arc m = 0; m < degree(v); ++m) add_capacity(arc(v, m).forth, v, sum);
        }
    }

    // Of rows that are near each other already; the order says which site of the caller's has a sum
    // that is too large.
    GraphNetwork(const GraphRows<Capacity>& rows, const SiteOrder& order)
        : records_(rows.begins.size()), arcs_(rows.number) {
        for (std::size_t k = 0; k < rows.begins.size(); ++k) {
            records_[k] = {rows.begins[k], 0, Parent<StoredArc>::kNone};
        }
        // Both arcs of a pair when the first of its ends comes: the other one is near.
        std::vector<Arc> filled(rows.begins.size(), 0);
        Pause pause;
        for (Site v = 0; v < sites(); ++v) {
            const auto [from, to] = rows.of(v);
            pause(static_cast<std::int64_t>(8 + 4 * (to - from)));
            std::int64_t sum = 0;
            for (std::size_t k = from; k < to; ++k) {
                const auto [u, capacity] = rows.halves[k];
                add_capacity(capacity, order.caller(v), sum);
                if (v < u) join(v, u, capacity, filled);
            }
        }
    }

    static std::size_t bytes_needed(std::size_t sites, std::size_t pairs) {
        return (sites + 1) * sizeof(Record) + 2 * pairs * sizeof(StoredPair);
    }
    std::size_t bytes() const { return bytes_needed(records_.size() - 1, arcs_.size() / 2); }

    Site sites() const { return static_cast<Site>(records_.size() - 1); }
    Excess greatest_sum() const { return greatest_sum_; }

    Arc degree(Site v) const {
        const Record* const here = &record(v);
        return static_cast<Arc>((here + 1)->begin - here->begin);
    }
    Site head(Site v, Arc m) const { return arc(v, m).head; }
    Arc opposite(Site v, Arc m) const { return arc(v, m).opposite; }
    Capacity residual(Site v, Arc m) const { return arc(v, m).forth; }

    Level level(Site v) const { return record(v).level; }
    void set_level(Site v, Level level) { record(v).level = level; }
    StoredArc& parent(Site v) { return record(v).parent; }
    StoredArc parent(Site v) const { return record(v).parent; }
    void free_all(Site from, Site to) {
        for (Site v = from; v < to; ++v) {
            record(v).level = 0;
            record(v).parent = Parent<StoredArc>::kNone;
        }
    }

    template <bool away, class Match, class Visit>
    void for_each_open(Site v, Arc from, Match match, Visit&& visit) const {
        const StoredPair* const arcs = arcs_.data() + record(v).begin;
        const Arc number = degree(v);
        for (Arc m = from; m < number; ++m) {
            const StoredPair& one = arcs[m];
            if ((away ? one.forth : one.back) == 0 || !match(level(one.head))) continue;
            if (!shut_.empty() && (away ? is_shut(v, m) : is_shut(one.head, one.opposite))) {
                continue;
            }
            if (visit(m)) return;
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
        const StoredPair* const arcs = arcs_.data() + record(v).begin;
        const Arc number = degree(v);
        for (Arc m = 0; m < number; ++m) {
            const StoredArc up = parent(arcs[m].head) & Parent<StoredArc>::kArc;
            if (up == static_cast<StoredArc>(arcs[m].opposite)) visit(m);
        }
    }

    // Moves flow from v to u over v's arc m, and returns whether that is closed now.
    bool push(Site v, Arc m, Site u, Excess amount) {
        StoredPair& mine = arc(v, m);
        StoredPair& theirs = arc(u, mine.opposite);
        mine.forth = theirs.back = static_cast<Capacity>(mine.forth - amount);
        mine.back = theirs.forth = static_cast<Capacity>(mine.back + amount);
        return mine.forth == 0;
    }

    // --- Walls: a shut arc keeps what could flow over it, and takes no part in a search ----------

    bool is_open(Site v, Arc m) const {
        return residual(v, m) > 0 && (shut_.empty() || !is_shut(v, m));
    }
    void shut(Site v, Arc m) { shut_[slot(v, m)] = true; }
    void unshut(Site v, Arc m) { shut_[slot(v, m)] = false; }
    // Nothing can flow over v's arc m any more, seen from v; the other end has to be told, too.
    void sever(Site v, Arc m) {
        StoredPair& mine = arc(v, m);
        mine.forth = 0;
        arc(mine.head, mine.opposite).back = 0;
    }
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
        if (number == 1) {
            parts_[0] = everything();
            return;
        }
        shut_ = SharedArray<bool>(arcs_.size());
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
        visit(records_.data(), records_.size() * sizeof(Record));
        visit(arcs_.data(), arcs_.size() * sizeof(StoredPair));
        visit(shut_.data(), shut_.size() * sizeof(bool));
    }

    // A graph has no tiles.
    template <class Visit>
    void for_each_tile(std::size_t, bool, Visit&&) const {}

  private:
    struct Record {
        std::size_t begin;  // of its arcs, which may outnumber 32 bits
        Level level;
        StoredArc parent;
    };
    struct StoredPair {  // as one of its ends sees it
        Site head;
        Arc opposite;    // the arc back, by its place at the head
        Capacity forth;  // what can still flow to the head
        Capacity back;   // and from there
    };
    struct Crossing {
        Site site;
        Arc arc;
    };

    void join(Site v, Site u, Capacity capacity, std::vector<Arc>& filled) {
        const Arc forth = filled[static_cast<std::size_t>(v)]++;
        const Arc back = filled[static_cast<std::size_t>(u)]++;
        arc(v, forth) = {u, back, capacity, capacity};
        arc(u, back) = {v, forth, capacity, capacity};
    }
    // To the sum of a site, which is checked.
    void add_capacity(Capacity capacity, Site caller, std::int64_t& sum) {
        sum += std::int64_t{capacity};
        if (sum > Width<Capacity>::kMostSum) {
            require_sum<Capacity>(sum, "of site " + std::to_string(caller));
        }
        greatest_sum_ = std::max(greatest_sum_, static_cast<Excess>(sum));
    }

    Record& record(Site v) const { return records_[static_cast<std::size_t>(v)]; }
    std::size_t slot(Site v, Arc m) const { return record(v).begin + static_cast<std::size_t>(m); }
    StoredPair& arc(Site v, Arc m) const { return arcs_[slot(v, m)]; }
    bool is_shut(Site v, Arc m) const { return shut_[slot(v, m)]; }

    SharedArray<Record> records_;  // and one more, where the last site's arcs end
    SharedArray<StoredPair> arcs_;
    SharedArray<bool> shut_;  // empty while there are no walls
    Excess greatest_sum_ = 0;
    std::vector<std::int32_t> members_;
    std::vector<Part> parts_;
    std::vector<std::vector<Crossing>> crossings_;
};

}  // namespace dope
