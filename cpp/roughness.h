// What labels pay for differing: the part of an energy that its pairs add, from the definition.
#pragma once

#include "exact_sum.h"
#include "grid_weights.h"

namespace dope {

// The sum of the weights of the pairs (p, q) with p in `box` (inside the grid) whose labels differ.
// `labels` are bytes in row-major order, of which all but 0 are label 1.
ExactSum roughness(const GridWeights& weights, const std::uint8_t* labels, const Box& box);

// The sum of w (y_p - y_q)^2 over the same pairs, of numbers instead of labels. It is compensated:
// rounded once, but for an error some 2^50 times smaller than the rounding, so that the order of
// the pairs does not show.
double roughness(const GridWeights& weights, const double* y, const Box& box);

}  // namespace dope
