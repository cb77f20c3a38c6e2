// Long work without the GIL, which Ctrl-C and Cancel stop.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "flow_types.h"
#include "pause.h"

namespace dope {

namespace nb = nanobind;

// Work in the threads that entered one of these stops soon after cancel(), from whichever thread.
class Cancel {
  public:
    void cancel() { *cancelled_ = true; }
    bool cancelled() const { return *cancelled_; }
    void enter() { entered().push_back(cancelled_); }
    void leave() {
        auto& list = entered();
        const auto last = std::find(list.rbegin(), list.rend(), cancelled_);
        if (last == list.rend()) {
            throw std::runtime_error(
                "this Cancel was not entered in this thread: expected `with cancel:`");
        }
        list.erase(std::next(last).base());
    }

    static bool here() {
        const auto& list = entered();
        return std::any_of(list.begin(), list.end(), [](const Flag& flag) { return flag->load(); });
    }

  private:
    // Shared, since a thread may enter a Cancel and lose it.
    using Flag = std::shared_ptr<std::atomic<bool>>;
    static std::vector<Flag>& entered() {
        thread_local std::vector<Flag> list;
        return list;
    }
    Flag cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

// Lets Python see Ctrl-C during long work; true if there was one, or a cancel(). Looks at the clock
// before it takes the GIL, since taking it from many threads all the time would hold them up.
class SignalPoll {
  public:
    bool operator()() {
        if (Cancel::here()) return true;
        constexpr auto kBetween = std::chrono::milliseconds(50);
        const auto now = std::chrono::steady_clock::now();
        if (now - last_ < kBetween) return false;
        last_ = now;
        const nb::gil_scoped_acquire gil;
        return PyErr_CheckSignals() != 0;
    }

  private:
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// The class of what is raised after cancel().
inline nb::handle& cancelled_error() {
    static nb::handle error;
    return error;
}

// work(poll) without the GIL; what does not take a poll asks by a Pause.
template <class Work>
auto at_work(Work&& work) {
    try {
        const nb::gil_scoped_release release;
        if (Cancel::here()) throw Interrupted();  // however little there is to do
        const Poll poll{SignalPoll()};
        const PollHere here(poll);
        return work(poll);
    } catch (const Interrupted&) {
        if (!PyErr_Occurred()) PyErr_SetString(cancelled_error().ptr(), "cancelled");
        throw nb::python_error();
    }
}

}  // namespace dope
