// From weights to integer capacities, and what numbers have to be like to become integers.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>

#include "flow_types.h"
#include "pause.h"
#include "portable_exp.h"

namespace dope {

inline std::string text(double number) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.16g", number);
    return digits;
}

// A power of two scales without loss. 2^900 still leaves room above costs of order one.
inline bool is_scale(double scale) {
    return scale > 0.0 && scale <= 0x1p900 && std::scalbn(1.0, std::ilogb(scale)) == scale;
}

inline void require_scale(double scale) {
    if (!is_scale(scale)) {
        throw std::invalid_argument("scale is " + text(scale) +
                                    ": expected a power of two, up to 2^900");
    }
}

inline void require_numbers(const double* unary, std::size_t sites) {
    in_pieces(static_cast<std::int64_t>(sites), [&](std::int64_t low, std::int64_t high) {
        for (std::int64_t i = low; i < high; ++i) {
            if (std::isnan(unary[i])) {
                throw std::invalid_argument("unary is NaN at flat position " + std::to_string(i) +
                                            ": expected numbers");
            }
        }
    });
}

// rint(weight * scale) if that is a capacity of this type; otherwise -1.
template <class Capacity>
double capacity_or_minus_one(double weight, double scale) {
    const double scaled = nearest(weight * scale);
    // A weight that is not a number fails every comparison.
    const bool fits =
        weight >= 0.0 && scaled <= static_cast<double>(Width<Capacity>::kMostCapacity);
    return fits ? scaled : -1.0;
}

// Writes rint(weight * scale) for each weight; false if one of them is not a number, is below 0, or
// comes out above `most`.
bool round_weights(const double* weights, std::int64_t count, double scale, double most,
                   std::int16_t* capacities);
bool round_weights(const double* weights, std::int64_t count, double scale, double most,
                   std::int32_t* capacities);
bool round_weights(const double* weights, std::int64_t count, double scale, double most,
                   std::int64_t* capacities);

// Adds each capacity to its sum; true if none is 0.
bool add_capacities(const std::int16_t* capacities, std::int64_t count, std::int32_t* sums);
bool add_capacities(const std::int32_t* capacities, std::int64_t count, std::int64_t* sums);
bool add_capacities(const std::int64_t* capacities, std::int64_t count, std::int64_t* sums);

// Says why capacity_or_minus_one refused this weight.
template <class Capacity>
[[noreturn]] void refuse_weight(double weight, double scale, const std::string& where) {
    if (!(weight >= 0.0) || !std::isfinite(weight)) {
        throw std::invalid_argument("the weight " + where + " is " + text(weight) +
                                    ": expected a finite number >= 0");
    }
    throw std::invalid_argument(
        "the weight " + where + " is " + text(weight) + ", at scale " + text(scale) +
        " more than " + std::to_string(Width<Capacity>::kMostCapacity) +
        ", the greatest capacity in " + std::to_string(8 * sizeof(Capacity)) +
        " bits: expected a smaller scale or more bits");
}

// Checks the sum of one site's capacities.
template <class Capacity>
void require_sum(std::int64_t sum, const std::string& where) {
    if (sum > Width<Capacity>::kMostSum) {
        throw std::invalid_argument(
            "the capacities " + where + " add up to " + std::to_string(sum) + ", more than " +
            std::to_string(Width<Capacity>::kMostSum) + ", the most for " +
            std::to_string(8 * sizeof(Capacity)) + " bits: expected a smaller scale or more bits");
    }
}

}  // namespace dope
