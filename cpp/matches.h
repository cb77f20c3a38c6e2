// What a search of MaxFlow asks of a neighbor before it looks closer.
#pragma once

#include "flow_types.h"
#include "forest.h"
#include "sixteen.h"

namespace dope {

// One byte that says in which forest a site is and, roughly, how deep:
//     0 free     32 + depth % 32 source forest     64 + depth % 32 sink forest
inline std::uint8_t mark(Level level) {
    if (level == 0) return 0;
    return static_cast<std::uint8_t>(level > 0 ? 32 | (level & 31) : 64 | (-level & 31));
}

// Each match answers for one level exactly; and for sixteen marks at once with a bit each, set for
// every site that matches, and for a few others.

class AtLevel {
  public:
    explicit AtLevel(Level level) : level_(level), mark_(Sixteen::all(mark(level))) {}
    bool operator()(Level level) const { return level == level_; }
    SixteenBits operator()(Sixteen marks) const { return marks.equal(mark_); }

  private:
    Level level_;
    Sixteen mark_;
};

template <int side>
struct OutsideOf {
    bool operator()(Level level) const { return side * level <= 0; }
    SixteenBits operator()(Sixteen marks) const {
        return ~marks.having<(side == kSource ? 5 : 6)>() & 0xFFFF;
    }
};

struct Anywhere {
    bool operator()(Level) const { return true; }
    SixteenBits operator()(Sixteen) const { return 0xFFFF; }
};

}  // namespace dope
