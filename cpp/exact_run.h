// Many numbers into an exact sum at once.
#pragma once

#include <optional>
#include <span>

#include "exact_sum.h"
#include "flow_types.h"
#include "view.h"

namespace dope {

// At most this many numbers at a time: sums of integers of 51 bits then fit into 64.
inline constexpr std::size_t kMostInRun = 1024;

// Adds all of them. `values` are used up: they hold something else afterwards.
void add_run(std::span<double> values, ExactSum& sum);

// The sum of an array; of the numbers at which `where`, if it is there, is not 0.
ExactSum exact_sum(const RealView& values, const Point& shape, const std::optional<MaskView>& where,
                   const Poll& poll);

}  // namespace dope
