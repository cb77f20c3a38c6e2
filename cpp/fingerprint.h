// Whether two arrays hold the same numbers, without either at hand.
#pragma once

#include <array>
#include <cstdint>

#include "flow_types.h"
#include "view.h"

namespace dope {

// Different for different numbers or shapes, but for a chance of 2^-128; the same whatever the type
// and the strides. Not for arrays that somebody made to look alike.
using Fingerprint = std::array<std::uint64_t, 2>;

Fingerprint fingerprint(const PixelView& values, const Point& shape, const Poll& poll);

}  // namespace dope
