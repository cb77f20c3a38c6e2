#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace dope {

// A sum of numbers from which nothing is lost, whatever their sizes and their order.
//
// It is an integer in units of 2^kLeast, finer than any double, kept in digits of 32 bits. A digit
// is a signed 64-bit number that takes what is added without a carry; carries are settled every
// kMostTerms terms, long before a digit could overflow.
class ExactSum {
  public:
    // 2^-1074 is the least double; a multiple of 32, so that whole numbers begin with a digit.
    static constexpr int kLeast = -1088;
    // Beyond the largest double times a scale of 2^900, times 2^64 terms.
    static constexpr std::size_t kDigits = (1088 + 1024 + 900 + 64) / 32 + 1;

    void add(std::int64_t term) {
        digits_[kOnes] += term & kDigitMask;
        digits_[kOnes + 1] += term >> 32;
        count();
    }

    // value * 2^exponent, for an exponent of 0 to 900.
    void add(double value, int exponent = 0) {
        if (!std::isfinite(value)) {
            beyond_ += value;
            return;
        }
        const auto bits = std::bit_cast<std::uint64_t>(value);
        const int power = static_cast<int>(bits >> 52 & 0x7FF);  // 0 for those without a leading 1
        const std::int64_t leading = power == 0 ? 0 : std::int64_t{1} << 52;
        const std::int64_t size = static_cast<std::int64_t>(bits & 0xFFFFFFFFFFFFF) | leading;
        const std::int64_t sign = value < 0.0 ? -1 : 1;
        const int place = std::max(power, 1) - 1075 + exponent - kLeast;
        const auto first = static_cast<std::size_t>(place >> 5);
        const int shift = place & 31;
        const std::int64_t low = (size & kDigitMask) << shift;
        const std::int64_t high = (low >> 32) + ((size >> 32) << shift);
        digits_[first] += sign * (low & kDigitMask);
        digits_[first + 1] += sign * (high & kDigitMask);
        digits_[first + 2] += sign * (high >> 32);
        count();
    }

    void add(const ExactSum& other) {
        const ExactSum settled = other.settled();
        for (std::size_t d = 0; d < kDigits; ++d) digits_[d] += settled.digits_[d];
        beyond_ += other.beyond_;
        count();
    }

    // Whether only finite numbers were added.
    bool finite() const { return beyond_ == 0.0; }

    // Digits of 0 to 2^32 - 1, the last one of any sign: the sum is sum_d digit_d 2^(kLeast + 32d).
    std::array<std::int64_t, kDigits> digits() const { return settled().digits_; }

    // The sum times 2^exponent as a double: the nearest one, or the largest that is not above it.
    double nearest(int exponent = 0) const { return rounded(exponent, Rounding::kNearest); }
    double floor(int exponent = 0) const { return rounded(exponent, Rounding::kDown); }

  private:
    enum class Rounding { kNearest, kDown };
    static constexpr std::size_t kOnes = -kLeast / 32;
    static constexpr std::int64_t kDigitMask = 0xFFFFFFFF;
    static constexpr std::int64_t kMostTerms = std::int64_t{1} << 30;

    void count() {
        if (++terms_ < kMostTerms) return;
        *this = settled();
    }

    ExactSum settled() const {
        ExactSum sum;
        sum.beyond_ = beyond_;
        std::int64_t carry = 0;
        for (std::size_t d = 0; d + 1 < kDigits; ++d) {
            const std::int64_t digit = digits_[d] + carry;
            sum.digits_[d] = digit & kDigitMask;
            carry = digit >> 32;
        }
        sum.digits_.back() = digits_.back() + carry;
        return sum;
    }

    ExactSum negative() const {
        ExactSum sum;
        for (std::size_t d = 0; d < kDigits; ++d) sum.digits_[d] = -digits_[d];
        return sum.settled();
    }

    double rounded(int exponent, Rounding rounding) const {
        if (!finite()) return beyond_;
        const ExactSum sum = settled();
        const bool below_zero = sum.digits_.back() < 0;
        const auto digits = below_zero ? sum.negative().digits_ : sum.digits_;
        std::size_t top = kDigits;
        while (top > 0 && digits[top - 1] == 0) --top;
        if (top == 0) return 0.0;
        // The highest 64 bits, worth 2^least each; of what is below, it counts whether there is
        // any.
        const auto digit = [&](std::size_t k) {
            return top >= k ? static_cast<std::uint64_t>(digits[top - k]) : std::uint64_t{0};
        };
        const int unused = 32 - static_cast<int>(std::bit_width(digit(1)));
        const std::uint64_t bits =
            ((digit(1) << 32 | digit(2)) << unused) | (digit(3) >> (32 - unused));
        bool rest = (digit(3) << unused & kDigitMask) != 0;
        for (std::size_t k = 4; k <= top && !rest; ++k) rest = digit(k) != 0;
        const int least = kLeast + 32 * (static_cast<int>(top) - 3) + (32 - unused) + exponent;
        // A double has 53 bits; below 2^-1022 it ends with 2^-1074.
        const int drop = std::clamp(-1074 - least, 11, 65);
        std::uint64_t kept = drop < 64 ? bits >> drop : 0;
        const std::uint64_t dropped = bits - (drop < 64 ? kept << drop : 0);
        if (rounding == Rounding::kDown) {
            kept += below_zero && (dropped != 0 || rest);
        } else if (drop <= 64) {
            const std::uint64_t half = std::uint64_t{1} << (drop - 1);
            kept += dropped > half || (dropped == half && (rest || kept % 2 != 0));
        }
        const double size = std::ldexp(static_cast<double>(kept), std::max(least + drop, -1074));
        if (below_zero) return -size;
        const bool too_large = rounding == Rounding::kDown && std::isinf(size);
        return too_large ? std::numeric_limits<double>::max() : size;
    }

    std::array<std::int64_t, kDigits> digits_{};
    std::int64_t terms_ = 0;
    double beyond_ = 0.0;  // of numbers that are not finite
};

}  // namespace dope
