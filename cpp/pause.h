// Long loops stop when they are told to: by Ctrl-C or Cancel, which only at_work.h knows.
#pragma once

#include <cstdint>

#include "flow_types.h"

namespace dope {

// Whom to ask, in this thread: the Poll of the call at hand, if there is one.
inline const Poll*& poll_here() {
    thread_local const Poll* poll = nullptr;
    return poll;
}

// Lets the loops of this thread ask a Poll as long as it lives.
class PollHere {
  public:
    explicit PollHere(const Poll& poll) : before_(poll_here()) { poll_here() = &poll; }
    ~PollHere() { poll_here() = before_; }
    PollHere(const PollHere&) = delete;
    PollHere& operator=(const PollHere&) = delete;

  private:
    const Poll* before_;
};

// Counts work, in visited sites or the like, and asks after some milliseconds of it; throws
// Interrupted where the answer is to stop. For work that can be left half done.
class Pause {
  public:
    void operator()(std::int64_t work) {
        left_ -= work;
        if (left_ <= 0) ask();
    }

  private:
    static constexpr std::int64_t kBetween = 1 << 17;

    void ask() {
        left_ = kBetween;
        if (const Poll* poll = poll_here(); poll && *poll && (*poll)()) throw Interrupted();
    }

    std::int64_t left_ = kBetween;
};

// visit(low, high) for pieces of [0, count), with pauses in between; `work` is that of one.
template <class Visit>
void in_pieces(std::int64_t count, Visit&& visit, std::int64_t work = 1) {
    constexpr std::int64_t kPiece = 1 << 14;
    Pause pause;
    for (std::int64_t low = 0; low < count; low += kPiece) {
        const std::int64_t high = low + kPiece < count ? low + kPiece : count;
        visit(low, high);
        pause(work * (high - low));
    }
}

}  // namespace dope
