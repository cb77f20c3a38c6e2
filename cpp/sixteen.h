// Sixteen bytes at a time: SSE2, which every x86-64 has; NEON, which every 64-bit ARM has; or plain
// code.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#if defined(DOPE_PLAIN_BYTES)  // asked for, to test the plain code where it would not be used
#elif defined(__SSE2__) || defined(_M_X64)
#define DOPE_SSE2
#include <emmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_NEON) && !defined(__ARM_BIG_ENDIAN)
#define DOPE_NEON
#include <arm_neon.h>
#endif

namespace dope {

// A bit for each of sixteen bytes, the first lowest.
using SixteenBits = std::uint32_t;

class Sixteen {
  public:
#if defined(DOPE_SSE2)
    using Bytes = __m128i;
#elif defined(DOPE_NEON)
    using Bytes = uint8x16_t;
#else
    using Bytes = std::array<std::uint8_t, 16>;
#endif
    explicit Sixteen(Bytes bytes) : bytes_(bytes) {}

    // All the same.
    static Sixteen all(std::uint8_t byte) {
#if defined(DOPE_SSE2)
        return Sixteen(_mm_set1_epi8(static_cast<char>(byte)));
#elif defined(DOPE_NEON)
        return Sixteen(vdupq_n_u8(byte));
#else
        Bytes bytes;
        bytes.fill(byte);
        return Sixteen(bytes);
#endif
    }

    // 16 / kRow pieces of kRow bytes (4, 8 or 16), the k-th from at + steps[k].
    template <int kRow>
    static Sixteen rows(const std::uint8_t* at, const std::int32_t* steps) {
        static_assert(kRow == 4 || kRow == 8 || kRow == 16);
#if defined(DOPE_SSE2)
        if constexpr (kRow == 16) {
            return Sixteen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at + steps[0])));
        } else if constexpr (kRow == 8) {
            return Sixteen(_mm_unpacklo_epi64(eight(at + steps[0]), eight(at + steps[1])));
        } else {
            const __m128i low = _mm_unpacklo_epi32(four(at + steps[0]), four(at + steps[1]));
            const __m128i high = _mm_unpacklo_epi32(four(at + steps[2]), four(at + steps[3]));
            return Sixteen(_mm_unpacklo_epi64(low, high));
        }
#else
        std::array<std::uint8_t, 16> bytes;
        for (int k = 0; k < 16 / kRow; ++k) std::memcpy(&bytes[kRow * k], at + steps[k], kRow);
        return Sixteen::from(bytes.data());
#endif
    }

    static Sixteen from(const std::uint8_t* at) {
#if defined(DOPE_SSE2)
        return Sixteen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
#elif defined(DOPE_NEON)
        return Sixteen(vld1q_u8(at));
#else
        Bytes bytes;
        std::memcpy(bytes.data(), at, sizeof bytes);
        return Sixteen(bytes);
#endif
    }

    // Which bytes equal the other's.
    SixteenBits equal(Sixteen other) const {
#if defined(DOPE_SSE2)
        return bits(_mm_cmpeq_epi8(bytes_, other.bytes_));
#elif defined(DOPE_NEON)
        return bits(vceqq_u8(bytes_, other.bytes_));
#else
        SixteenBits out = 0;
        for (unsigned k = 0; k < 16; ++k) {
            out |= SixteenBits{bytes_[k] == other.bytes_[k]} << k;
        }
        return out;
#endif
    }

    // Which bytes have this bit (0 to 7) set.
    template <int bit>
    SixteenBits having() const {
#if defined(DOPE_SSE2)
        return bits(_mm_slli_epi16(bytes_, 7 - bit));  // what crosses bytes stays below their tops
#elif defined(DOPE_NEON)
        return bits(vtstq_u8(bytes_, vdupq_n_u8(1U << bit)));
#else
        SixteenBits out = 0;
        for (unsigned k = 0; k < 16; ++k) out |= SixteenBits{(bytes_[k] >> bit) & 1U} << k;
        return out;
#endif
    }

    Sixteen operator&(Sixteen other) const {
#if defined(DOPE_SSE2)
        return Sixteen(_mm_and_si128(bytes_, other.bytes_));
#elif defined(DOPE_NEON)
        return Sixteen(vandq_u8(bytes_, other.bytes_));
#else
        Bytes out;
        for (unsigned k = 0; k < 16; ++k) out[k] = bytes_[k] & other.bytes_[k];
        return Sixteen(out);
#endif
    }

  private:
#if defined(DOPE_SSE2)
    static __m128i eight(const std::uint8_t* at) {
        return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
    }
    static __m128i four(const std::uint8_t* at) {
        std::int32_t value = 0;
        std::memcpy(&value, at, sizeof value);
        return _mm_cvtsi32_si128(value);
    }
    static SixteenBits bits(__m128i tops) {
        return static_cast<SixteenBits>(_mm_movemask_epi8(tops));
    }
#elif defined(DOPE_NEON)
    // Of bytes that are 0 or 255.
    static SixteenBits bits(uint8x16_t bytes) {
        constexpr std::uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                              1, 2, 4, 8, 16, 32, 64, 128};
        const uint8x16_t weighted = vandq_u8(bytes, vld1q_u8(weights));
        return vaddv_u8(vget_low_u8(weighted)) | SixteenBits{vaddv_u8(vget_high_u8(weighted))} << 8;
    }
#endif

    Bytes bytes_;
};

}  // namespace dope
