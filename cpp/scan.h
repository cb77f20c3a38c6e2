// What is asked of an array before its numbers become costs, in one pass.
#pragma once

#include <optional>

#include "flow_types.h"
#include "view.h"

namespace dope {

struct Scan {
    // The least and the greatest number; 0 where there is none. They, and the total, mean something
    // only if all numbers are finite.
    double low = 0.0;
    double high = 0.0;
    double total = 0.0;  // of all |x|, rounded once or twice; infinite beyond double
    // The smallest k for which every factor * x, rounded to double, is a whole number of 2^-k;
    // nothing where that is more than the most that was asked for, or that is below 0.
    std::optional<int> places = 0;
    Index beyond = -1;  // where the first number is that is not finite, in row-major order
};

Scan scan(const PixelView& values, const Point& shape, double factor, int most, const Poll& poll);

}  // namespace dope
