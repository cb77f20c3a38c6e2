// exp in double from + - * and bit operations alone: the same bits on every platform, and a loop
// over it turns into vector code. (The C library's exp differs from one system to the next.)
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace dope {

// exp(x) with a relative error below 1e-15; 0 below -708, where the result would be denormal soon.
inline double portable_exp(double x) {
    // x = k ln 2 + r with |r| <= ln(2) / 2. Adding 1.5 * 2^52 rounds to an integer and leaves it in
    // the low bits. ln 2 is split so that k * kLn2High is exact.
    constexpr double kRound = 0x1.8p52;
    constexpr double kLog2E = 0x1.71547652b82fep+0;
    constexpr double kLn2High = 0x1.62e42fee00000p-1;
    constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
    const double shifted = x * kLog2E + kRound;
    const double k = shifted - kRound;
    const double r = (x - k * kLn2High) - k * kLn2Low;

    // Taylor's series: the first term left out, r^14 / 14!, is below 5e-18.
    double sum = 1.0 / 6227020800.0;
    sum = sum * r + 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;

    // 2^k, built from its exponent bits.
    const double power =
        std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023) << 52);
    double result = sum * power;
    result = x < -708.0 ? 0.0 : result;
    result = x > 709.0 ? std::numeric_limits<double>::infinity() : result;
    return result;
}

// The nearest integer, ties to even, for |x| < 2^51.
inline double nearest(double x) {
    constexpr double kRound = 0x1.8p52;
    return (x + kRound) - kRound;
}

}  // namespace dope
