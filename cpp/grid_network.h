// A grid as a network: neighbors by arithmetic, residual capacities by site.
//
// Sites lie in row-major order, padded so that every neighbor of every site exists: each axis is
// longer by the kernel's reach, and one padding serves both ends, since stepping out at the low end
// lands in the padding of the row before. Nothing ever flows to or from the padding.
// Arcs are the offsets and their negatives in the order of the neighbors' places, so that the
// opposite of arc m is M - 1 - m and neighbors in a row have arcs in a row. Offsets that reach
// beyond the grid have no pairs and no arcs.
#pragma once

#include <bit>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include "capacities.h"
#include "grid_weights.h"
#include "marks.h"

namespace dope {

struct GridLayout {
    Point shape;
    // The caller's offsets that have pairs, and their arcs.
    struct Used {
        std::size_t offset;
        Arc arc;
    };
    std::vector<Used> used;
    Point strides;            // of the padded grid
    std::vector<Site> steps;  // per arc: where the neighbor lies
    Index first = 0;          // place of the site (0, ..., 0)
    Index sites = 0;          // with padding

    GridLayout(const Point& shape, const std::vector<Point>& all_offsets);

    Index place(const Point& site) const { return first + dot(site, strides); }
};

// Neighbors in a row, at most eight, whose arcs lie in one word of a bit set.
struct KernelRow {
    Arc first;
    Site step;  // of the first arc
    std::uint32_t word;
    std::uint32_t shift;
    std::uint64_t all;  // a bit per arc
};

// Capacity: the type of the residual capacities. Word: the type of the bit sets below; a byte where
// it holds a bit for every arc, else 64 bits, and several of them for wide kernels.
template <class Capacity_, class Word>
class GridNetwork {
  public:
    using Capacity = Capacity_;
    using Excess = typename Width<Capacity>::Excess;
    // A stored arc. 16 bits: kernels of a few hundred arcs are common, of 32,000 they are not.
    using StoredArc = std::conditional_t<sizeof(Word) == 1, std::uint8_t, std::uint16_t>;

    static constexpr Arc kMostArcs = sizeof(Word) == 1 ? 8 : 32766;

    GridNetwork(const GridWeights& weights, double scale);

    static std::size_t bytes_needed(const GridLayout& layout) {
        const auto sites = static_cast<std::size_t>(layout.sites);
        return sites * layout.steps.size() * sizeof(Capacity) +
               sites * 2 * words(layout.steps.size()) * sizeof(Word);
    }
    std::size_t bytes() const { return bytes_needed(layout_); }

    Site sites() const { return static_cast<Site>(layout_.sites); }  // with padding
    Excess greatest_sum() const { return greatest_sum_; }            // of one site's capacities

    Arc degree(Site) const { return arcs_; }
    Site head(Site v, Arc m) const { return v + layout_.steps[static_cast<std::size_t>(m)]; }
    Arc opposite(Site, Arc m) const { return arcs_ - 1 - m; }
    Capacity residual(Site v, Arc m) const { return residual_[slot(v, m)]; }

    // How MaxFlow shall mark sites for this network.
    using SiteMarks = std::conditional_t<sizeof(Word) == 1, NoMarks, Marks>;

    // visit(m) for the arcs m >= from that can carry flow away from v, or towards v, in order,
    // until it returns true; arcs to neighbors whose marks do not match are passed over where that
    // saves time.
    template <bool away, class Match, class Visit>
    void for_each_open(Site v, Arc from, const SiteMarks& marks, Match match, Visit&& visit) const {
        const Word* set = open_arcs<away>(v);
        if constexpr (sizeof(Word) == 1) {
            for (unsigned open = unsigned{*set} >> from << from; open; open &= open - 1) {
                if (visit(static_cast<Arc>(std::countr_zero(open)))) return;
            }
        } else {
            const KernelRow* row = &rows_[row_of_[static_cast<std::size_t>(from)]];
            const KernelRow* const end = &rows_.back();
            std::uint64_t behind = ~std::uint64_t{0} << (from - row->first);
            for (; row != end; ++row) {
                std::uint64_t open = set[row->word] >> row->shift & row->all & behind;
                open &= match(marks.eight_from(v + row->step));
                for (; open; open &= open - 1) {
                    if (visit(row->first + static_cast<Arc>(std::countr_zero(open)))) return;
                }
                behind = ~std::uint64_t{0};
            }
        }
    }

    // Returns whether the arc is closed now.
    bool push(Site v, Arc m, Excess amount) {
        const Site u = head(v, m);
        const Arc back_arc = opposite(v, m);
        Capacity& forth = residual_[slot(v, m)];
        Capacity& back = residual_[slot(u, back_arc)];
        if (back == 0) {
            insert(open_arcs<true>(u), back_arc);
            insert(open_arcs<false>(v), m);
        }
        forth = static_cast<Capacity>(forth - amount);
        back = static_cast<Capacity>(back + amount);
        if (forth == 0) {
            erase(open_arcs<true>(v), m);
            erase(open_arcs<false>(u), back_arc);
        }
        return forth == 0;
    }

    // visit(place of the first site here, its place in the caller's array, length) for every row.
    template <class Visit>
    void for_each_row(Visit&& visit) const {
        std::size_t callers = 0;
        for_each_run(whole(layout_.shape), [&](const Point& first, Index length) {
            visit(static_cast<Site>(layout_.place(first)), callers, static_cast<Site>(length));
            callers += static_cast<std::size_t>(length);
        });
    }
    std::size_t real_sites() const { return static_cast<std::size_t>(volume(layout_.shape)); }

  private:
    static constexpr std::size_t kBits = 8 * sizeof(Word);

    static std::size_t words(std::size_t arcs) {
        return std::max<std::size_t>(1, (arcs + kBits - 1) / kBits);
    }

    std::size_t slot(Site v, Arc m) const {
        return static_cast<std::size_t>(v) * static_cast<std::size_t>(arcs_) +
               static_cast<std::size_t>(m);
    }

    template <bool away>
    const Word* open_arcs(Site v) const {
        return &open_[(static_cast<std::size_t>(v) * 2 + (away ? 0 : 1)) * words_];
    }
    template <bool away>
    Word* open_arcs(Site v) {
        return &open_[(static_cast<std::size_t>(v) * 2 + (away ? 0 : 1)) * words_];
    }
    static void insert(Word* set, Arc m) {
        const auto bit = static_cast<std::size_t>(m);
        set[bit / kBits] = static_cast<Word>(set[bit / kBits] | Word{1} << (bit % kBits));
    }
    static void erase(Word* set, Arc m) {
        const auto bit = static_cast<std::size_t>(m);
        set[bit / kBits] = static_cast<Word>(set[bit / kBits] & ~(Word{1} << (bit % kBits)));
    }

    void arrange_rows();
    void fill(const GridWeights& weights, double scale);
    void fill_run(const GridWeights& weights, double scale, GridLayout::Used use,
                  const Point& first, Index length);
    void finish_sites();  // once the capacities are there
    void note_open_arcs(Site v);

    GridLayout layout_;
    Arc arcs_;
    std::size_t words_;
    std::vector<KernelRow> rows_;        // and one that ends them
    std::vector<std::uint32_t> row_of_;  // per arc, and for the arc behind the last
    std::vector<Capacity> residual_;
    // Per site the set of arcs that can carry flow away from it, then of those that can carry flow
    // towards it: what a search looks at, without a look at the capacities of every neighbor.
    std::vector<Word> open_;
    Excess greatest_sum_ = 0;
};

// Kernels of up to 8 arcs, and all others.
template <class Capacity>
using SmallGridNetwork = GridNetwork<Capacity, std::uint8_t>;
template <class Capacity>
using LargeGridNetwork = GridNetwork<Capacity, std::uint64_t>;

extern template class GridNetwork<std::int16_t, std::uint8_t>;
extern template class GridNetwork<std::int32_t, std::uint8_t>;
extern template class GridNetwork<std::int64_t, std::uint8_t>;
extern template class GridNetwork<std::int16_t, std::uint64_t>;
extern template class GridNetwork<std::int32_t, std::uint64_t>;
extern template class GridNetwork<std::int64_t, std::uint64_t>;

}  // namespace dope
