// Someone else's array, read in place: a pointer, strides, and whatever keeps the memory alive.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "box.h"

namespace dope {

template <class T>
struct View {
    const T* start = nullptr;
    Point strides;                     // in elements, one per axis
    std::shared_ptr<const void> keep;  // owner of the memory; may be empty

    // How far apart, in elements, two sites are; further axes of the array than these stay put.
    Index distance(const Point& step) const {
        Index sum = 0;
        for (std::size_t a = 0; a < step.size(); ++a) sum += step[a] * strides[a];
        return sum;
    }

    const T* at(const Point& point) const { return start + distance(point); }
};

// Yes or no per site, as bytes that are 0 or not.
using MaskView = View<std::uint8_t>;

// Measurements come in either width, pixels as cameras and scanners write them too, and are read
// where they lie; arithmetic is always in double.
using RealView = std::variant<View<float>, View<double>>;
using PixelView = std::variant<View<std::uint8_t>, View<std::uint16_t>, View<std::int16_t>,
                               View<float>, View<double>>;

}  // namespace dope
