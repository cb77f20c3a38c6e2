// How much neighbours differ on the whole, added up exactly so that the order does not matter.
#pragma once

#include "exact_sum.h"
#include "grid_weights.h"

namespace dope {

struct Contrast {
    ExactSum sum;     // of rint(|x_p - x_q|^2 / unit)
    Index pairs = 0;  // how many terms
};

// Over the pairs with p in `box` (inside `shape`) and p + offset inside `shape`; where there is a
// mask, both of them inside it.
Contrast contrast(const Features& features, const Point& shape, const std::vector<Point>& offsets,
                  const Box& box, double unit, const std::optional<MaskView>& inside = {});

}  // namespace dope
