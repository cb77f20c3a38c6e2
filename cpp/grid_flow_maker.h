// The stores a GridNetwork may have, and who makes a flow with each.
#pragma once

#include <memory>

#include "block_flow.h"
#include "few_arcs.h"
#include "flow.h"
#include "many_arcs.h"

namespace dope {

// The stores, the most special first.
template <class Capacity>
using Few4 = FewArcs<Capacity, 4>;
template <class Capacity>
using Few6 = FewArcs<Capacity, 6>;
template <class Capacity>
using Few8 = FewArcs<Capacity, 8>;
template <class Capacity>
using Rows4 = ManyArcs<Capacity, 4, std::uint8_t>;  // such as 3x3x3
template <class Capacity>
using Rows8 = ManyArcs<Capacity, 8, std::uint8_t>;  // such as 7x7 and balls
template <class Capacity>
using Rows16 = ManyArcs<Capacity, 16, std::uint16_t>;  // any

// Makes flows for the kernels that suit the store. Each store is compiled in a file of its own.
template <class Store>
struct GridFlowMaker {
    static std::unique_ptr<GridFlow> make(const GridWeights& weights, double scale,
                                          const Poll& poll);
    static std::unique_ptr<BlockFlow> make_blocks(const GridWeights& weights, double scale,
                                                  const std::vector<Point>& cuts);
    static std::size_t bytes_needed(const GridLayout& layout);
};

}  // namespace dope
