// One byte per site that says in which forest it is and, roughly, how deep: enough to rule out most
// neighbors, eight in a row at a time, in one 64-bit word. Whoever asks has to look again at those
// left.
//
//     0 free     32 + depth % 32 source forest     64 + depth % 32 sink forest
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "flow_types.h"
#include "forest.h"

namespace dope {

// Eight marks, the first in the lowest byte.
using EightMarks = std::uint64_t;
// A bit for each of them, the first lowest.
using EightBits = std::uint64_t;

inline constexpr EightMarks kEach = 0x0101010101010101;

// From the top bit of each byte to eight bits in a row.
inline EightBits top_bits(EightMarks bytes) {
    // The product adds up copies so that bit 8 i lands at 56 + i, and nothing else lands there.
    return ((bytes >> 7 & kEach) * 0x0102040810204080) >> 56;
}

// The top bit of each byte that is not 0, all bytes being below 128.
inline EightMarks not_zero(EightMarks bytes) { return bytes + kEach * 0x7F; }

inline std::uint8_t mark(Level level) {
    if (level == 0) return 0;
    return static_cast<std::uint8_t>(level > 0 ? 32 | (level & 31) : 64 | (-level & 31));
}

// Sites at this level, and a few others.
class AtLevel {
  public:
    explicit AtLevel(Level level) : wanted_(kEach * mark(level)) {}
    EightBits operator()(EightMarks marks) const { return top_bits(~not_zero(marks ^ wanted_)); }

  private:
    EightMarks wanted_;
};

// Sites that are not in this forest.
template <int side>
struct OutsideOf {
    EightBits operator()(EightMarks marks) const {
        return top_bits(~(side == kSource ? marks << 2 : marks << 1));
    }
};

// Any site.
struct Anywhere {
    EightBits operator()(EightMarks) const { return 0xFF; }
};

class Marks {
  public:
    explicit Marks(std::size_t sites) : marks_(sites + sizeof(EightMarks), 0) {}

    static std::size_t bytes_needed(std::size_t sites) { return sites + sizeof(EightMarks); }
    std::size_t bytes() const { return marks_.size(); }

    void set(Site v, Level level) { marks_[static_cast<std::size_t>(v)] = mark(level); }
    void clear() { std::fill(marks_.begin(), marks_.end(), std::uint8_t{0}); }

    EightMarks eight_from(Site v) const {
        const std::uint8_t* first = marks_.data() + v;
        EightMarks eight = 0;
        if constexpr (std::endian::native == std::endian::little) {
            std::memcpy(&eight, first, sizeof eight);
        } else {
            for (unsigned k = 0; k < 8; ++k) eight |= EightMarks{first[k]} << (8 * k);
        }
        return eight;
    }

  private:
    std::vector<std::uint8_t> marks_;
};

// For networks that do not compare neighbors in rows.
class NoMarks {
  public:
    explicit NoMarks(std::size_t) {}
    static std::size_t bytes_needed(std::size_t) { return 0; }
    void set(Site, Level) {}
    void clear() {}
};

}  // namespace dope
