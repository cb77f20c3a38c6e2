// Costs counted in units of 1 / scale.
#pragma once

#include "flow_types.h"
#include "view.h"

namespace dope {

// rint(value * scale) of all values, in row-major order; false if one of them does not fit `out`,
// which then holds something else.
bool count_units(const RealView& values, const Point& shape, double scale, std::int16_t* out,
                 const Poll& poll);
bool count_units(const RealView& values, const Point& shape, double scale, std::int32_t* out,
                 const Poll& poll);

}  // namespace dope
