// A grid as a network: neighbors by arithmetic, residual capacities by site.
//
// Sites lie in row-major order, padded so that every neighbor of every site exists: each axis is
// longer by the kernel's reach, and one padding serves both ends, since stepping out at the low end
// lands in the padding of the row before. Nothing ever flows to or from the padding.
// Arcs are the offsets in order, then the negated offsets in reverse, so that the opposite of arc m
// is M - 1 - m. Offsets that reach beyond the grid have no pairs and no arcs.
#pragma once

#include <cstdlib>
#include <vector>

#include "capacities.h"
#include "grid_weights.h"

namespace dope {

struct GridLayout {
    Point shape;
    std::vector<std::size_t> offsets;  // which of the caller's offsets have pairs
    Point strides;                     // of the padded grid
    std::vector<Site> steps;           // per arc: where the neighbor lies
    Index first = 0;                   // place of the site (0, ..., 0)
    Index sites = 0;                   // with padding

    GridLayout(const Point& shape, const std::vector<Point>& all_offsets);

    Index place(const Point& site) const { return first + dot(site, strides); }
};

template <class Capacity_>
class GridNetwork {
  public:
    using Capacity = Capacity_;
    using Excess = typename Width<Capacity>::Excess;
    // A stored arc. 16 bits: kernels of a few hundred arcs are common, of 65,000 they are not.
    using StoredArc = std::uint16_t;

    GridNetwork(const GridWeights& weights, double scale);

    static std::size_t bytes_needed(const GridLayout& layout) {
        return static_cast<std::size_t>(layout.sites) * layout.steps.size() * sizeof(Capacity);
    }
    std::size_t bytes() const { return residual_.size() * sizeof(Capacity); }

    Site sites() const { return static_cast<Site>(layout_.sites); }  // with padding
    Excess greatest_sum() const { return greatest_sum_; }            // of one site's capacities

    Arc degree(Site) const { return arcs_; }
    Site head(Site v, Arc m) const { return v + layout_.steps[static_cast<std::size_t>(m)]; }
    Arc opposite(Site, Arc m) const { return arcs_ - 1 - m; }
    Capacity residual(Site v, Arc m) const { return residual_[slot(v, m)]; }

    // The first arc from `m` on that can carry flow away from v, or towards v; degree if none.
    template <bool away>
    Arc open(Site v, Arc m) const {
        for (; m < arcs_; ++m) {
            if (away ? residual(v, m) > 0 : residual(head(v, m), opposite(v, m)) > 0) break;
        }
        return m;
    }

    void push(Site v, Arc m, Excess amount) {
        Capacity& forth = residual_[slot(v, m)];
        Capacity& back = residual_[slot(head(v, m), opposite(v, m))];
        forth = static_cast<Capacity>(forth - amount);
        back = static_cast<Capacity>(back + amount);
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
    std::size_t slot(Site v, Arc m) const {
        return static_cast<std::size_t>(v) * static_cast<std::size_t>(arcs_) +
               static_cast<std::size_t>(m);
    }
    void fill(const GridWeights& weights, double scale);
    void fill_run(const GridWeights& weights, double scale, Arc m, const Point& first,
                  Index length);
    void check_sums();

    GridLayout layout_;
    Arc arcs_;
    std::vector<Capacity> residual_;
    Excess greatest_sum_ = 0;
};

extern template class GridNetwork<std::int16_t>;
extern template class GridNetwork<std::int32_t>;
extern template class GridNetwork<std::int64_t>;

}  // namespace dope
