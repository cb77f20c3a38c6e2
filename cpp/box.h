// Boxes of sites in any number of dimensions, visited row by row: a row is a run of sites that
// follow one another along the last axis.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dope {

// Coordinates, extents and strides: as wide as NumPy's own.
using Index = std::int64_t;

// One coordinate per axis.
using Point = std::vector<Index>;

// Rows are worked on in pieces of at most this many sites, so that buffers stay in the first cache.
inline constexpr Index kRun = 1024;

inline std::string text(const Point& point) {
    std::string out = "(";
    for (std::size_t a = 0; a < point.size(); ++a) {
        out += (a ? ", " : "") + std::to_string(point[a]);
    }
    return out + ")";
}

// The product of the extents; refuses what no array could hold.
inline Index volume(const Point& shape) {
    Index sites = 1;
    for (const Index extent : shape) {
        if (extent < 0) throw std::invalid_argument("negative extent in shape " + text(shape));
        if (extent > 0 && sites > std::numeric_limits<Index>::max() / extent) {
            throw std::invalid_argument("shape " + text(shape) + " has too many sites");
        }
        sites *= extent;
    }
    return sites;
}

inline Point row_major_strides(const Point& shape) {
    Point strides(shape.size(), 1);
    for (std::size_t a = shape.size(); a-- > 1;) strides[a - 1] = strides[a] * shape[a];
    return strides;
}

inline Index dot(const Point& a, const Point& b) {
    Index sum = 0;
    for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
    return sum;
}

// The sites p with low <= p < high on every axis.
struct Box {
    Point low;
    Point high;

    bool empty() const {
        for (std::size_t a = 0; a < low.size(); ++a) {
            if (low[a] >= high[a]) return true;
        }
        return false;
    }

    Index sites() const {
        if (empty()) return 0;
        Index count = 1;
        for (std::size_t a = 0; a < low.size(); ++a) count *= high[a] - low[a];
        return count;
    }
};

inline Box whole(const Point& shape) { return {Point(shape.size(), 0), shape}; }

// The sites p of `box` for which p + offset lies inside `shape` too.
inline Box tails(const Box& box, const Point& shape, const Point& offset) {
    Box out = box;
    for (std::size_t a = 0; a < shape.size(); ++a) {
        // Further is as far out, and cannot overflow.
        const Index step = std::clamp(offset[a], -shape[a], shape[a]);
        out.low[a] = std::max(box.low[a], -step);
        out.high[a] = std::min(box.high[a], shape[a] - step);
    }
    return out;
}

// visit(first, length) for every run of at most `most` sites, in row-major order.
template <class Visit>
void for_each_run(const Box& box, Visit&& visit, Index most = kRun) {
    if (box.empty()) return;
    const std::size_t last = box.low.size() - 1;
    Point at = box.low;
    for (;;) {
        for (at[last] = box.low[last]; at[last] < box.high[last]; at[last] += most) {
            visit(std::as_const(at), std::min(most, box.high[last] - at[last]));
        }
        at[last] = box.low[last];
        std::size_t a = last;
        while (a > 0 && ++at[a - 1] == box.high[a - 1]) {
            at[a - 1] = box.low[a - 1];
            --a;
        }
        if (a == 0) return;
    }
}

}  // namespace dope
