// Where the sites and the neighbors of a grid lie.
//
// Sites lie in row-major order, padded so that every neighbor of every site exists: each axis is
// longer by the kernel's reach, and one padding serves both ends, since stepping out at the low end
// lands in the padding of the row before. Nothing ever flows to or from the padding.
// Arcs are the offsets and their negatives in the order of the neighbors' places, so that the
// opposite of arc m is M - 1 - m and neighbors in a row have arcs in a row. Offsets that reach
// beyond the grid have no pairs and no arcs.
#pragma once

#include <vector>

#include "box.h"
#include "flow_types.h"

namespace dope {

struct GridLayout {
    Point shape;
    // The caller's offsets that have pairs, and their arcs.
    struct Used {
        std::size_t offset;
        Point step;  // the offset itself
        Arc arc;
    };
    std::vector<Used> used;
    Point strides;            // of the padded grid
    std::vector<Site> steps;  // per arc: where the neighbor lies, in rising order
    Index first = 0;          // place of the site (0, ..., 0)
    Index sites = 0;          // with padding

    GridLayout(const Point& shape, const std::vector<Point>& all_offsets);

    Index place(const Point& site) const { return first + dot(site, strides); }
    Arc opposite(Arc m) const { return static_cast<Arc>(steps.size()) - 1 - m; }

    // Arcs that lead from a site to itself and never carry anything, up to this number of arcs.
    void add_idle_arcs(std::size_t arcs);

  private:
    void number_arcs();
};

}  // namespace dope
