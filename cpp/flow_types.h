// The integers of the max-flow core, each named with the reason for its width.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>

namespace dope {

// A site inside a network. 32 bits: at 24 bytes and more per site, 2^31 of them exceed one machine,
// and every queue is half as long as with 64.
using Site = std::int32_t;
inline constexpr std::int64_t kMostSites = std::numeric_limits<Site>::max();

// An arc by its place among the arcs of its site. 32 bits: a site of a sparse graph may neighbor
// every other site.
using Arc = std::int32_t;

// How deep a site hangs in a search tree, with the tree's sign. 32 bits: a path may wind through
// every site, and levels go on growing over warm starts (MaxFlow starts over at kMostLevels).
using Level = std::int32_t;
#ifdef DOPE_FUZZ
inline constexpr Level kMostLevels = 50;
#else
inline constexpr Level kMostLevels = Level{1} << 30;
#endif

// For each type of residual capacity: the type of a site's excess, and what the capacities may be
// so that nothing ever overflows. A residual capacity reaches twice the capacity. An excess reaches
// the sum of a site's capacities plus the clamp on the unary, which is the greatest such sum + 1.
template <class Capacity>
struct Width;

template <>
struct Width<std::int16_t> {
    using Wider = std::int32_t;
    using Excess = std::int32_t;  // a site has many arcs: 16 bits would not hold their sum
    static constexpr std::int64_t kMostCapacity = 16383;
    static constexpr std::int64_t kMostSum = (std::int64_t{1} << 30) - 1;
};

template <>
struct Width<std::int32_t> {
    using Wider = std::int64_t;
    using Excess = std::int32_t;
    static constexpr std::int64_t kMostCapacity = (std::int64_t{1} << 30) - 1;
    static constexpr std::int64_t kMostSum = (std::int64_t{1} << 30) - 1;
};

template <>
struct Width<std::int64_t> {
    using Wider = std::int64_t;
    using Excess = std::int64_t;
    // Doubles hold these integers exactly, and int64 the sum over the widest kernel, 2^15 arcs.
    static constexpr std::int64_t kMostCapacity = (std::int64_t{1} << 48) - 1;
    static constexpr std::int64_t kMostSum = (std::int64_t{1} << 48) - 1;
};

// make(a capacity of the right width), so that templates can tell the widths apart.
template <class Make>
auto with_width(int bits, Make&& make) {
    if (bits == 16) return make(std::int16_t{});
    if (bits == 32) return make(std::int32_t{});
    if (bits == 64) return make(std::int64_t{});
    throw std::invalid_argument("bits is " + std::to_string(bits) + ": expected 16, 32 or 64");
}

// A unary in units of 1 / scale. 64 bits: far beyond any sum of capacities, so that the minimum
// comes out right with costs that stand for "certainly"; below 2^51, where doubles still round to
// integers.
inline constexpr std::int64_t kMostUnary = std::int64_t{1} << 50;

// Asked now and then during long work; true means: stop.
using Poll = std::function<bool()>;

// Thrown where a Poll said stop. The object it came from stays usable.
struct Interrupted : std::runtime_error {
    Interrupted() : std::runtime_error("interrupted") {}
};

}  // namespace dope
