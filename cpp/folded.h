// Arrays of one shape, walked through together in long runs: axes that lie one after another in
// all of them are put together first.
#pragma once

#include <algorithm>

#include "view.h"

namespace dope {

// A shape with at least one axis, and for each array its strides; positions in row-major order are
// those of the shape that it came from.
struct Folded {
    Point shape;
    std::vector<Point> strides;
};

inline Folded folded(const Point& shape, const std::vector<Point>& strides) {
    Folded out{{}, std::vector<Point>(strides.size())};
    for (std::size_t a = 0; a < shape.size(); ++a) {
        if (shape[a] == 1) continue;
        bool joins = !out.shape.empty();
        for (std::size_t k = 0; joins && k < strides.size(); ++k) {
            joins = out.strides[k].back() == shape[a] * strides[k][a];
        }
        if (joins) {
            out.shape.back() *= shape[a];
        } else {
            out.shape.push_back(shape[a]);
        }
        for (std::size_t k = 0; k < strides.size(); ++k) {
            if (joins) out.strides[k].pop_back();
            out.strides[k].push_back(strides[k][a]);
        }
    }
    if (out.shape.empty()) {
        out.shape.push_back(1);
        for (Point& steps : out.strides) steps.push_back(1);
    }
    return out;
}

// Numbers that are `step` apart, as doubles.
template <class T>
void read_run(const T* from, Index step, Index length, double* out) {
    if (step == 1) {
        for (Index t = 0; t < length; ++t) out[t] = static_cast<double>(from[t]);
    } else {
        for (Index t = 0; t < length; ++t) out[t] = static_cast<double>(from[t * step]);
    }
}

}  // namespace dope
