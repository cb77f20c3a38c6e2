// A small box of a grid, its sites at places of its own.
#pragma once

#include <cstddef>
#include <vector>

#include "flow_types.h"

namespace dope {

struct Tile {
    struct Row {
        Site first;
        std::size_t place;  // of that site
        Site length;
    };
    std::vector<Row> rows;
    std::size_t places = 0;  // with padding
    // From a site to later ones, and from its place to theirs, or to the padding.
    std::vector<Arc> arcs;
    std::vector<std::size_t> steps;
};

}  // namespace dope
