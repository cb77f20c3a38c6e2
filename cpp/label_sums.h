// What several labels pay for their pairs, and what a move of them pays at every site, from the
// definition.
#pragma once

#include "exact_sum.h"
#include "fused.h"
#include "grid_weights.h"

namespace dope {

// The sum of w(p, m) V(x_p, x_q) over the pairs (p, q) with p in `box` (inside the grid), each
// product rounded once. Labels are in row-major order, and equal ones cost nothing.
template <class Label>
ExactSum label_cost(const GridWeights& weights, const Label* labels, const LabelCosts& costs,
                    const Box& box);

// u'(i) of every site in row-major order, of a move from `labels` to `proposal` (fused.h). Every
// site adds up its pairs in an order that does not depend on what is around them.
template <class Label>
void label_slopes(const GridWeights& weights, const Label* labels, const Label* proposal,
                  const LabelCosts& costs, double* out);

// Which label is proposed instead of which at some site at least: (labels, labels) of 0 and 1. Of
// the sites that are not 0 in `moving`.
template <class Label>
void joint_labels(const Label* labels, const Label* proposal, const std::uint8_t* moving,
                  Index sites, std::int32_t count, std::uint8_t* joint);

}  // namespace dope
