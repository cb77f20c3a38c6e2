// How much neighbours differ on the whole, added up exactly so that the order does not matter.
#pragma once

#include <cstdint>

#include "grid_weights.h"

namespace dope {

// An exact sum of non-negative terms below 2^62: high * 2^62 + low.
struct ExactSum {
    std::uint64_t high = 0;
    std::uint64_t low = 0;  // always below 2^62, so that one more term cannot overflow

    void add(std::uint64_t term) {
        low += term;
        high += low >> 62;
        low &= (std::uint64_t{1} << 62) - 1;
    }
};

struct Contrast {
    ExactSum sum;     // of rint(|x_p - x_q|^2 / unit)
    Index pairs = 0;  // how many terms
};

// Over the pairs with p in `box` (inside `shape`) and p + offset inside `shape`; where there is a
// mask, both of them inside it.
Contrast contrast(const Features& features, const Point& shape, const std::vector<Point>& offsets,
                  const Box& box, double unit, const std::optional<MaskView>& inside = {});

}  // namespace dope
