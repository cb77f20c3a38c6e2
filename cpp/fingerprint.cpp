#include "fingerprint.h"

#include <bit>

#include "folded.h"
#include "wide_vectors.h"

namespace dope {

namespace {

// Word t goes to lane t % kLanes, so that vectors do several at once.
constexpr int kLanes = 8;
// Two states per lane: every step is a bijection of each, so that two rows of numbers which differ
// in one word always differ in the end, and others by a chance of 2^-64 per state. Odd multipliers
// with bits all over, from xxHash.
constexpr std::uint64_t kOne = 0x9E3779B185EBCA87;
constexpr std::uint64_t kOther = 0xC2B2AE3D27D4EB4F;

struct Lanes {
    std::uint64_t one[kLanes] = {1, 2, 3, 4, 5, 6, 7, 8};
    std::uint64_t other[kLanes] = {9, 10, 11, 12, 13, 14, 15, 16};
};

inline void mix(std::uint64_t& one, std::uint64_t& other, std::uint64_t word) {
    one = (one ^ word) * kOne;
    one ^= one >> 32;
    other = (other + word) * kOther;
    other ^= other >> 29;
}

// `count` is a multiple of kLanes. -0.0 counts as 0.0.
DOPE_WIDE_VECTORS void mix_all(const double* values, Index count, Lanes& lanes) {
    Lanes here = lanes;
    for (Index t = 0; t < count; t += kLanes) {
        for (int j = 0; j < kLanes; ++j) {
            const auto word = std::bit_cast<std::uint64_t>(values[t + j] + 0.0);
            here.one[j] = (here.one[j] ^ word) * kOne;
            here.one[j] ^= here.one[j] >> 32;
            here.other[j] = (here.other[j] + word) * kOther;
            here.other[j] ^= here.other[j] >> 29;
        }
    }
    lanes = here;
}

template <class T>
Fingerprint of_view(const View<T>& values, const Point& shape, const Poll& poll) {
    Lanes lanes;
    if (volume(shape) > 0) {
        const Folded axes = folded(shape, {values.strides});
        const View<T> view{values.start, axes.strides[0], nullptr};
        std::vector<double> buffer(2 * kRun, 0.0);
        Index held = 0;
        Index polled = 0;
        for_each_run(whole(axes.shape), [&](const Point& first, Index length) {
            constexpr Index kBetweenPolls = 64 * kRun;
            if (polled <= 0) {
                if (poll && poll()) throw Interrupted();
                polled = kBetweenPolls;
            }
            polled -= length;
            const T* from = view.at(first);
            if constexpr (std::is_same_v<T, double>) {
                if (held == 0 && length == kRun && view.strides.back() == 1) {
                    return mix_all(from, kRun, lanes);
                }
            }
            read_run(from, view.strides.back(), length, buffer.data() + held);
            held += length;
            if (held < kRun) return;
            mix_all(buffer.data(), kRun, lanes);
            held -= kRun;
            std::copy_n(buffer.data() + kRun, held, buffer.data());
        });
        const Index padded = (held + kLanes - 1) / kLanes * kLanes;
        std::fill(buffer.begin() + held, buffer.begin() + padded, 0.0);
        mix_all(buffer.data(), padded, lanes);
    }
    Fingerprint all{};
    for (const Index extent : shape) mix(all[0], all[1], static_cast<std::uint64_t>(extent));
    for (int j = 0; j < kLanes; ++j) {
        mix(all[0], all[1], lanes.one[j]);
        mix(all[0], all[1], lanes.other[j]);
    }
    return all;
}

}  // namespace

Fingerprint fingerprint(const PixelView& values, const Point& shape, const Poll& poll) {
    return std::visit([&](const auto& view) { return of_view(view, shape, poll); }, values);
}

}  // namespace dope
