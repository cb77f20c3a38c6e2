#include "units.h"

#include <bit>

#include "folded.h"
#include "wide_vectors.h"

namespace dope {

namespace {

// Adding 1.5 * 2^52 to a number below 2^51 rounds it to an integer, ties to even, which then stands
// in the low bits of the sum.
template <class Unit>
inline bool count_run(const double* values, Index count, double scale, Unit* out) {
    constexpr double kMagic = 6755399441055744.0;
    constexpr double kMost = 1099511627776.0;  // 2^40: more than any Unit
    const auto base = std::bit_cast<std::int64_t>(kMagic);
    std::int64_t lost = 0;
    for (Index t = 0; t < count; ++t) {
        double scaled = values[t] * scale;
        scaled = scaled < -kMost ? -kMost : scaled;
        scaled = scaled > kMost ? kMost : scaled;
        const std::int64_t units = std::bit_cast<std::int64_t>(scaled + kMagic) - base;
        const auto kept = static_cast<Unit>(units);
        lost |= units ^ std::int64_t{kept};
        out[t] = kept;
    }
    return lost == 0;
}

// Attributes that choose a processor do not reach templates.
DOPE_WIDE_VECTORS bool count(const double* values, Index length, double scale, std::int16_t* out) {
    return count_run(values, length, scale, out);
}
DOPE_WIDE_VECTORS bool count(const double* values, Index length, double scale, std::int32_t* out) {
    return count_run(values, length, scale, out);
}

template <class Value, class Unit>
bool count_all(const View<Value>& values, const Point& shape, double scale, Unit* out,
               const Poll& poll) {
    if (volume(shape) == 0) return true;
    const Folded axes = folded(shape, {values.strides});
    const View<Value> view{values.start, axes.strides[0], nullptr};
    std::vector<double> buffer(kRun);
    bool fits = true;
    Index polled = 0;
    for_each_run(whole(axes.shape), [&](const Point& first, Index length) {
        constexpr Index kBetweenPolls = 64 * kRun;
        if (!fits) return;
        if (polled <= 0) {
            if (poll && poll()) throw Interrupted();
            polled = kBetweenPolls;
        }
        polled -= length;
        read_run(view.at(first), view.strides.back(), length, buffer.data());
        fits = count(buffer.data(), length, scale, out);
        out += length;
    });
    return fits;
}

}  // namespace

bool count_units(const RealView& values, const Point& shape, double scale, std::int16_t* out,
                 const Poll& poll) {
    return std::visit([&](const auto& view) { return count_all(view, shape, scale, out, poll); },
                      values);
}
bool count_units(const RealView& values, const Point& shape, double scale, std::int32_t* out,
                 const Poll& poll) {
    return std::visit([&](const auto& view) { return count_all(view, shape, scale, out, poll); },
                      values);
}

}  // namespace dope
