#include "contrast.h"

#include <bit>
#include <cmath>
#include <type_traits>

#include "pause.h"
#include "wide_vectors.h"

namespace dope {

namespace {

constexpr int kTermBits = 62;  // of a term, which is an int64 then

// Sums of (p[k] - q[k])^2. A square of bytes is below 2^16, so 2^15 of them fit into 31 bits, and
// narrow sums are what makes the loop fast.
inline std::uint64_t sum_of_squares(const std::uint8_t* p, const std::uint8_t* q, Index count) {
    constexpr Index kPiece = 1 << 15;
    std::uint64_t sum = 0;
    for (Index low = 0; low < count; low += kPiece) {
        const Index high = std::min(count, low + kPiece);
        std::int32_t piece = 0;
        for (Index k = low; k < high; ++k) {
            const std::int32_t difference = p[k] - q[k];
            piece += difference * difference;
        }
        sum += static_cast<std::uint64_t>(piece);
    }
    return sum;
}

// A difference of 16 bits is at most 2^16 - 1 and its square fits into 32 bits without a sign,
// whatever sign the difference had.
template <class T>
inline std::uint64_t sum_of_squares(const T* p, const T* q, Index count) {
    std::uint64_t sum = 0;
    for (Index k = 0; k < count; ++k) {
        const auto difference = static_cast<std::uint32_t>(p[k] - q[k]);
        sum += difference * difference;
    }
    return sum;
}

// Attributes that choose a processor do not reach templates: one function for each type of pixel.
#define DOPE_SQUARES(T)                                                                  \
    DOPE_WIDE_VECTORS std::uint64_t squares(const T* p, const T* q, const Index count) { \
        return sum_of_squares(p, q, count);                                              \
    }
DOPE_SQUARES(std::uint8_t)
DOPE_SQUARES(std::uint16_t)
DOPE_SQUARES(std::int16_t)
#undef DOPE_SQUARES

struct Rounded {
    std::uint64_t sum;   // of the terms
    std::uint64_t bits;  // all that occur in a term
};

// Terms rint(row[t] * per_unit), right as long as `bits` stay below 2^51. Adding 1.5 * 2^52 to a
// number of [0, 2^51) rounds it to an integer, ties to even, which then stands in the low bits of
// the sum; integers may be added in any order, so this turns into vector code. The bits of a double
// grow with it: a larger number, infinity or NaN (of either sign) leaves bits from 2^51 on.
DOPE_WIDE_VECTORS Rounded round_and_add(const double* row, Index length, double per_unit) {
    constexpr double kRound = 0x1.8p52;
    Rounded total{0, 0};
    for (Index t = 0; t < length; ++t) {
        const std::uint64_t term = std::bit_cast<std::uint64_t>(row[t] * per_unit + kRound) -
                                   std::bit_cast<std::uint64_t>(kRound);
        total.sum += term;
        total.bits |= term;
    }
    return total;
}

class Adder {
  public:
    Adder(const Features& features, double unit) : features_(features), unit_(unit) {
        int exponent = 0;
        // Multiplying by the inverse of a power of two is dividing by it; an inverse that
        // overflows or is denormal is left to the slow way.
        if (std::frexp(unit, &exponent) == 0.5 && std::abs(exponent) < 1000) {
            places_ = 1 - exponent;
            per_unit_ = 1.0 / unit;
        }
    }

    void add(const Point& first, const Point& offset, Index length, ExactSum& sum) {
        if (add_integers(first, offset, length, sum)) return;
        squared_distances(features_, first, offset, length, row_.data());
        if (per_unit_ != 0.0) {
            // Less than 2^10 terms below 2^51 each: no overflow.
            const Rounded rounded = round_and_add(row_.data(), length, per_unit_);
            if (rounded.bits >> 51 == 0) return sum.add(static_cast<std::int64_t>(rounded.sum));
        }
        add_one_by_one(first, offset, length, sum);
    }

  private:
    // With unit = 2^-places <= 1, |x_p - x_q|^2 / unit of integer pixels is an integer, so that
    // there is nothing to round: the sum of a run's terms is the sum of its squares times
    // 2^places, in whatever order. (`squared_distances` is exact as well: partial sums of up to
    // kRun channels stay below 2^42.) If that sum is below 2^62, so is every term; else, and for a
    // larger unit, the terms go the slow way.
    bool add_integers(const Point& first, const Point& offset, Index length, ExactSum& sum) {
        if (places_ < 0 || places_ >= kTermBits || features_.channels > kRun) return false;
        return std::visit(
            [&](const auto& values) {
                using Pixel = std::remove_cvref_t<decltype(*values.start)>;
                if constexpr (std::is_integral_v<Pixel>) {
                    const Index channels = features_.channels;
                    const bool packed = values.strides[first.size() - 1] == channels &&
                                        (channels == 1 || values.strides.back() == 1);
                    if (!packed) return false;
                    const Pixel* p = values.at(first);
                    const std::uint64_t run =
                        squares(p, p + values.distance(offset), length * channels);
                    if (run >> (kTermBits - places_) != 0) return false;
                    sum.add(static_cast<std::int64_t>(run << places_));
                    return true;
                } else {
                    return false;
                }
            },
            features_.values);
    }

    void add_one_by_one(const Point& first, const Point& offset, Index length, ExactSum& sum) {
        constexpr double kTermLimit = 0x1p62;
        for (Index t = 0; t < length; ++t) {
            const double distance = row_[static_cast<std::size_t>(t)];
            const double term = std::nearbyint(distance / unit_);
            if (!(term < kTermLimit)) {
                Point p = first;
                p.back() += t;
                throw std::invalid_argument("the squared difference of the pair at site " +
                                            text(p) + ", offset " + text(offset) + " is " +
                                            std::to_string(distance) +
                                            ": expected a finite number below 2^62 units");
            }
            sum.add(static_cast<std::int64_t>(term));
        }
    }

    const Features& features_;
    double unit_;
    double per_unit_ = 0.0;  // 1 / unit if that is exact
    int places_ = -1;        // unit = 2^-places, if it is a power of two up to 1
    std::vector<double> row_ = std::vector<double>(kRun);
};

// visit(first, length) for every stretch of a run of pairs that have both ends inside.
template <class Visit>
void for_each_run_inside(const MaskView& inside, const Point& first, const Point& offset,
                         Index length, Visit&& visit) {
    const Index step = inside.strides.back();
    const std::uint8_t* p = inside.at(first);
    const std::uint8_t* q = p + inside.distance(offset);
    const auto kept = [&](Index t) { return p[t * step] != 0 && q[t * step] != 0; };
    Point at = first;
    for (Index t = 0; t < length;) {
        const Index begin = t;
        while (t < length && kept(t)) ++t;
        at.back() = first.back() + begin;
        if (t > begin) visit(std::as_const(at), t - begin);
        while (t < length && !kept(t)) ++t;
    }
}

}  // namespace

Contrast contrast(const Features& features, const Point& shape, const std::vector<Point>& offsets,
                  const Box& box, double unit, const std::optional<MaskView>& inside) {
    Contrast total;
    Adder adder(features, unit);
    Pause pause;
    for (const Point& offset : offsets) {
        const auto add = [&](const Point& first, Index length) {
            total.pairs += length;
            adder.add(first, offset, length, total.sum);
        };
        for_each_run(tails(box, shape, offset), [&](const Point& first, Index length) {
            pause(length * features.channels);
            if (inside) {
                for_each_run_inside(*inside, first, offset, length, add);
            } else {
                add(first, length);
            }
        });
    }
    return total;
}

}  // namespace dope
