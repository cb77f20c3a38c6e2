#include "exact_run.h"

#include "folded.h"
#include "wide_vectors.h"

namespace dope {

namespace {

// NaN if there is one. As integers the sizes have the same order, and compilers make vectors of it.
DOPE_WIDE_VECTORS double greatest_size(const double* values, std::size_t count) {
    std::int64_t most = 0;
    for (std::size_t t = 0; t < count; ++t) {
        most = std::max(most, std::bit_cast<std::int64_t>(std::fabs(values[t])));
    }
    return std::bit_cast<double>(most);
}

struct Extracted {
    std::int64_t sum;
    bool rest;  // whether anything is left
};

// Takes from every value the nearest multiple of sigma's last place, and adds up how often that is.
// sigma is 1.5 x 2^k and |value| < 2^(k - 1), so that sigma + value has the exponent of sigma, and
// their bits are as far apart as the integers they stand for. All of it is exact (Rump, Ogita and
// Oishi, Accurate floating-point summation, 2008), and of integers compilers make vectors.
DOPE_WIDE_VECTORS Extracted extract(double* values, std::size_t count, double sigma) {
    const auto base = std::bit_cast<std::int64_t>(sigma);
    std::int64_t sum = 0;
    std::int64_t rest = 0;
    for (std::size_t t = 0; t < count; ++t) {
        const double moved = sigma + values[t];
        const double left = values[t] - (moved - sigma);
        sum += std::bit_cast<std::int64_t>(moved) - base;
        rest |= std::bit_cast<std::int64_t>(std::fabs(left));
        values[t] = left;
    }
    return {sum, rest != 0};
}

// number * 2^exponent, of which no bit is below the last of a double.
void add_scaled(std::int64_t number, int exponent, ExactSum& sum) {
    const std::int64_t low = number & 0xFFFFFFFF;
    sum.add(std::ldexp(static_cast<double>(low), exponent));
    sum.add(std::ldexp(static_cast<double>(number - low), exponent));
}

// 0 where nothing was chosen.
DOPE_WIDE_VECTORS void keep_chosen(double* values, const std::uint8_t* chosen, Index count) {
    for (Index t = 0; t < count; ++t) values[t] = chosen[t] != 0 ? values[t] : 0.0;
}

DOPE_WIDE_VECTORS bool any_chosen(const std::uint8_t* chosen, Index count) {
    std::uint8_t any = 0;
    for (Index t = 0; t < count; ++t) any |= chosen[t];
    return any != 0;
}

template <class Value>
ExactSum sum_of(const View<Value>& values, const Point& shape, const std::optional<MaskView>& where,
                const Poll& poll) {
    ExactSum sum;
    if (volume(shape) == 0) return sum;
    std::vector<Point> strides{values.strides};
    if (where) strides.push_back(where->strides);
    const Folded axes = folded(shape, strides);
    const View<Value> numbers{values.start, axes.strides[0], nullptr};
    const MaskView mask{where ? where->start : nullptr, axes.strides.back(), nullptr};
    std::vector<double> run(kMostInRun);
    std::vector<std::uint8_t> chosen(kMostInRun);
    std::size_t held = 0;
    Index polled = 0;
    for_each_run(whole(axes.shape), [&](const Point& first, Index length) {
        constexpr Index kBetweenPolls = 64 * kRun;
        if (polled <= 0) {
            if (poll && poll()) throw Interrupted();
            polled = kBetweenPolls;
        }
        polled -= length;
        const auto count = static_cast<std::size_t>(length);
        const std::uint8_t* from = where ? mask.at(first) : nullptr;
        if (where && mask.strides.back() != 1) {
            for (Index t = 0; t < length; ++t) {
                chosen[static_cast<std::size_t>(t)] = from[t * mask.strides.back()];
            }
            from = chosen.data();
        }
        if (where && !any_chosen(from, length)) return;
        if (held + count > kMostInRun) add_run({run.data(), std::exchange(held, 0)}, sum);
        double* out = run.data() + held;
        read_run(numbers.at(first), numbers.strides.back(), length, out);
        if (where) keep_chosen(out, from, length);
        held += count;
    });
    add_run({run.data(), held}, sum);
    return sum;
}

}  // namespace

void add_run(std::span<double> values, ExactSum& sum) {
    constexpr int kMostExponent = 1000;
    constexpr int kLeastExponent = -1022;
    constexpr int kMostParts = 3;  // further apart, numbers are few
    const double most = greatest_size(values.data(), values.size());
    if (most == 0.0) return;
    int exponent = std::isfinite(most) ? std::ilogb(most) + 2 : kMostExponent;
    for (int part = 0; part < kMostParts; ++part) {
        if (exponent >= kMostExponent || exponent < kLeastExponent) break;
        const double sigma = std::ldexp(1.5, exponent);
        const Extracted found = extract(values.data(), values.size(), sigma);
        add_scaled(found.sum, exponent - 52, sum);
        if (!found.rest) return;
        exponent -= 51;  // what is left is at most half of sigma's last place
    }
    for (const double value : values) {
        if (value != 0.0) sum.add(value);
    }
}

ExactSum exact_sum(const RealView& values, const Point& shape, const std::optional<MaskView>& where,
                   const Poll& poll) {
    return std::visit([&](const auto& view) { return sum_of(view, shape, where, poll); }, values);
}

}  // namespace dope
