// The sites of a grid whose kernel has many neighbors: a bit per arc says whether it is open, and a
// byte per site roughly where it hangs, so that one look at sixteen neighbors rules out most.
//
// Neighbors that follow one another are a row; rows longer than kRow are cut. In a bit set every
// row takes up kRow bits, so that the k-th vector of sixteen marks and bits 16 k to 16 k + 15
// belong together. Bits that belong to no arc are never set.
#pragma once

#include <bit>
#include <type_traits>

#include "capacities.h"
#include "grid_layout.h"
#include "matches.h"
#include "parent.h"
#include "shared_array.h"

namespace dope {

template <class Capacity_, int kRow, class StoredArc_>
class ManyArcs {
  public:
    using Capacity = Capacity_;
    using Excess = typename Width<Capacity>::Excess;
    using StoredArc = StoredArc_;
    using Word = std::uint64_t;
    using OpenSet = std::vector<Word>;
    static constexpr bool kHalves = false;  // ways are short where kernels are wide

    explicit ManyArcs(const GridLayout& layout)
        : arcs_(static_cast<Arc>(layout.steps.size())),
          rows_(layout.steps),
          residual_(static_cast<std::size_t>(layout.sites) * layout.steps.size()),
          open_(static_cast<std::size_t>(layout.sites) * 2 * rows_.words),
          level_(static_cast<std::size_t>(layout.sites)),
          mark_(static_cast<std::size_t>(layout.sites) + kSlack),
          parent_(static_cast<std::size_t>(layout.sites) + kSlack),
          steps_(layout.steps) {
        // The places behind the last site are nobody's children.
        std::fill(parent_.end() - kSlack, parent_.end(), Parent<StoredArc>::kNone);
    }

    static bool suits(const GridLayout& layout) {
        if (layout.steps.size() > Parent<StoredArc>::kMostArcs) return false;
        Site length = 0;
        for (std::size_t m = 0; m < layout.steps.size(); ++m) {
            const bool goes_on = m > 0 && follows(layout.steps[m - 1], layout.steps[m]);
            length = goes_on ? length + layout.steps[m] - layout.steps[m - 1] : 1;
            if (length > kRow && kRow < 16) return false;
        }
        return true;
    }
    static std::size_t bytes_needed(const GridLayout& layout) {
        const auto sites = static_cast<std::size_t>(layout.sites);
        return sites * (layout.steps.size() * sizeof(Capacity) +
                        2 * Rows(layout.steps).words * sizeof(Word) + sizeof(Level)) +
               (sites + kSlack) * (1 + sizeof(StoredArc));
    }

    Site sites() const { return static_cast<Site>(level_.size()); }  // with padding
    Arc degree(Site) const { return arcs_; }
    Site head(Site v, Arc m) const { return v + steps_[static_cast<std::size_t>(m)]; }
    Arc opposite(Site, Arc m) const { return arcs_ - 1 - m; }
    Capacity* residuals(Site v) { return &residual_[slot(v, 0)]; }
    Capacity residual(Site v, Arc m) const { return residual_[slot(v, m)]; }

    Level level(Site v) const { return level_[static_cast<std::size_t>(v)]; }
    void set_level(Site v, Level level) {
        level_[static_cast<std::size_t>(v)] = level;
        mark_[static_cast<std::size_t>(v)] = mark(level);
    }
    StoredArc& parent(Site v) { return parent_[static_cast<std::size_t>(v)]; }
    StoredArc parent(Site v) const { return parent_[static_cast<std::size_t>(v)]; }
    void free_all(Site from, Site to) {
        std::fill(level_.begin() + from, level_.begin() + to, 0);
        std::fill(mark_.begin() + from, mark_.begin() + to, std::uint8_t{0});
        std::fill(parent_.begin() + from, parent_.begin() + to, Parent<StoredArc>::kNone);
    }

    template <bool away, class Match, class Visit>
    void for_each_open(Site v, Arc from, Match match, Visit&& visit) const {
        if (from >= arcs_) return;
        const std::size_t first = rows_.bit[static_cast<std::size_t>(from)];
        const Word* const set = open_arcs<away>(v);
        Word behind = ~Word{0} << first % 64;
        for (std::size_t k = first / 64; k < rows_.words; ++k) {
            Word found = set[k] & behind;
            if (!std::is_same_v<Match, Anywhere> && found) {
                found &= in_rows(k, mark_.data() + v,
                                 [&](Sixteen marks, std::size_t) { return match(marks); });
            }
            for (; found; found &= found - 1) {
                const Arc m = arc(k, found);
                if (match(level(head(v, m))) && visit(m)) return;
            }
            behind = ~Word{0};
        }
    }

    // True only if no neighbor of the kTogether sites from v on matches.
    static constexpr Site kTogether = 16;
    template <class Match>
    bool none_near(Site v, Match match) const {
        for (const Site step : rows_.steps) {
            const std::uint8_t* const first = mark_.data() + v + step;
            const Sixteen low = Sixteen::from(first);
            const Sixteen high = Sixteen::from(first + kRow - 1);
            if (match(low) | match(high)) return false;
        }
        return true;
    }

    // The children of v are at this level, and hang on arcs that carry flow away from v or towards
    // v.
    template <bool away, class Visit>
    void for_each_child(Site v, Level children, Visit&& visit) const {
        if constexpr (sizeof(StoredArc) == 1) {
            const Sixteen arc_bits = Sixteen::all(Parent<StoredArc>::kArc);
            for (std::size_t k = 0; k < rows_.words; ++k) {
                Word found = in_rows(k, parent_.data() + v, [&](Sixteen up, std::size_t first) {
                    return (up & arc_bits).equal(Sixteen::from(&rows_.opposite[first]));
                });
                for (; found; found &= found - 1) visit(arc(k, found));
            }
        } else {
            for_each_open<away>(v, 0, AtLevel(children), [&](Arc m) {
                if ((parent(head(v, m)) & Parent<StoredArc>::kArc) == opposite(v, m)) visit(m);
                return false;
            });
        }
    }

    // Moves flow from v to u over v's arc m, and returns whether that is closed now.
    bool push(Site v, Arc m, Site u, Excess amount) {
        const Arc back_arc = arcs_ - 1 - m;
        Capacity& forth = residual_[slot(v, m)];
        Capacity& back = residual_[slot(u, back_arc)];
        if (back == 0) {
            insert(open_arcs<true>(u), back_arc);
            insert(open_arcs<false>(v), m);
        }
        forth = static_cast<Capacity>(forth - amount);
        back = static_cast<Capacity>(back + amount);
        if (forth != 0) return false;
        erase(open_arcs<true>(v), m);
        erase(open_arcs<false>(u), back_arc);
        return true;
    }

    // --- Walls: a shut arc keeps what could flow over it, and takes no part in a search ----------

    bool is_open(Site v, Arc m) const {
        const std::uint32_t bit = rows_.bit[static_cast<std::size_t>(m)];
        return open_arcs<true>(v)[bit / 64] >> bit % 64 & 1U;
    }
    void shut(Site v, Arc m) {
        erase(open_arcs<true>(v), m);
        erase(open_arcs<false>(v), m);
    }
    // Opens v's arc m again, both ways, as far as something can flow.
    void unshut(Site v, Arc m) {
        if (residual(v, m) > 0) insert(open_arcs<true>(v), m);
        if (residual(head(v, m), opposite(v, m)) > 0) insert(open_arcs<false>(v), m);
    }
    // Nothing can flow over v's arc m any more, seen from v; the other end has to be told, too.
    void sever(Site v, Arc m) {
        residual_[slot(v, m)] = 0;
        shut(v, m);
    }
    void push_over_wall(Site v, Arc m, Excess amount) {
        Capacity& forth = residual_[slot(v, m)];
        Capacity& back = residual_[slot(head(v, m), opposite(v, m))];
        forth = static_cast<Capacity>(forth - amount);
        back = static_cast<Capacity>(back + amount);
    }

    // --- While the network is filled -------------------------------------------------------------

    OpenSet none_open() const { return OpenSet(rows_.words, 0); }
    void insert(OpenSet& set, Arc m) const { insert(set.data(), m); }
    void set_open(Site v, const OpenSet& set) {
        Word* const sets = open_arcs<true>(v);  // and behind it those towards v
        for (std::size_t k = 0; k < rows_.words; ++k) sets[k] = sets[rows_.words + k] = set[k];
    }

    // visit(bytes, number of them) for all that changes while flow moves.
    template <class Visit>
    void for_each_store(Visit&& visit) const {
        visit(residual_.data(), residual_.size() * sizeof(Capacity));
        visit(open_.data(), open_.size() * sizeof(Word));
        visit(level_.data(), level_.size() * sizeof(Level));
        visit(mark_.data(), mark_.size() * sizeof(std::uint8_t));
        visit(parent_.data(), parent_.size() * sizeof(StoredArc));
    }

  private:
    // Rows are read in whole vectors, the last of them past the last site.
    static constexpr std::size_t kSlack = 48;

    static bool follows(Site before, Site step) {
        // The site itself, in the middle of the kernel, does not end a row.
        return step - before == 1 || (step == 1 && before == -1);
    }

    struct Rows {
        std::size_t words = 1;
        std::vector<Site> steps;             // of each row's first site
        std::vector<std::uint32_t> bit;      // of each arc
        std::vector<std::uint16_t> arc;      // of each bit
        std::vector<std::uint8_t> opposite;  // of each bit's arc; 255 where there is none

        explicit Rows(const std::vector<Site>& arc_steps) {
            for (std::size_t m = 0; m < arc_steps.size(); ++m) {
                const bool goes_on = m > 0 && follows(arc_steps[m - 1], arc_steps[m]) &&
                                     arc_steps[m] - steps.back() < kRow;
                if (!goes_on) steps.push_back(arc_steps[m]);
                const auto place = static_cast<std::size_t>(arc_steps[m] - steps.back());
                bit.push_back(static_cast<std::uint32_t>((steps.size() - 1) * kRow + place));
            }
            while (steps.empty() || steps.size() % (16 / kRow)) steps.push_back(0);
            words = (steps.size() * kRow + 63) / 64;
            arc.resize(steps.size() * kRow, 0);
            opposite.resize(steps.size() * kRow, 255);
            for (std::size_t m = 0; m < arc_steps.size(); ++m) {
                arc[bit[m]] = static_cast<std::uint16_t>(m);
                opposite[bit[m]] = static_cast<std::uint8_t>(arc_steps.size() - 1 - m);
            }
        }
    };

    // The bits of the k-th word: test(sixteen bytes, the first one's bit) for all of its rows.
    template <class Test>
    Word in_rows(std::size_t k, const std::uint8_t* at, Test&& test) const {
        constexpr std::size_t kRows = 16 / kRow;  // per vector
        const std::size_t last = std::min(rows_.steps.size() * kRow, 64 * k + 64);
        Word found = 0;
        for (std::size_t bit = 64 * k; bit < last; bit += 16) {
            const Sixteen bytes = Sixteen::rows<kRow>(at, &rows_.steps[bit / 16 * kRows]);
            found |= Word{test(bytes, bit)} << bit % 64;
        }
        return found;
    }

    // The arc of the lowest bit of a set's k-th word.
    Arc arc(std::size_t k, Word found) const {
        return rows_.arc[64 * k + static_cast<std::size_t>(std::countr_zero(found))];
    }

    std::size_t slot(Site v, Arc m) const {
        return static_cast<std::size_t>(v) * static_cast<std::size_t>(arcs_) +
               static_cast<std::size_t>(m);
    }

    template <bool away>
    const Word* open_arcs(Site v) const {
        return &open_[(static_cast<std::size_t>(v) * 2 + (away ? 0 : 1)) * rows_.words];
    }
    template <bool away>
    Word* open_arcs(Site v) {
        return &open_[(static_cast<std::size_t>(v) * 2 + (away ? 0 : 1)) * rows_.words];
    }
    void insert(Word* set, Arc m) const {
        const std::uint32_t bit = rows_.bit[static_cast<std::size_t>(m)];
        set[bit / 64] |= Word{1} << bit % 64;
    }
    void erase(Word* set, Arc m) const {
        const std::uint32_t bit = rows_.bit[static_cast<std::size_t>(m)];
        set[bit / 64] &= ~(Word{1} << bit % 64);
    }

    Arc arcs_;
    Rows rows_;
    SharedArray<Capacity> residual_;
    // Per site the set of arcs that can carry flow away from it, then of those that can carry flow
    // towards it.
    SharedArray<Word> open_;
    SharedArray<Level> level_;
    SharedArray<std::uint8_t> mark_;  // of the levels
    SharedArray<StoredArc> parent_;
    std::vector<Site> steps_;
};

}  // namespace dope
