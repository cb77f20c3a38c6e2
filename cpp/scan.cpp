#include "scan.h"

#include <bit>
#include <cmath>

#include "folded.h"
#include "wide_vectors.h"

namespace dope {

namespace {

// Side by side, so that they are computed by vectors.
constexpr int kLanes = 8;
// From here on all doubles are whole numbers.
constexpr double kWhole = 4503599627370496.0;  // 2^52

struct Extent {
    double low;
    double high;
    double total;  // finite only if all numbers are
};

// An integer with the order of the double, NaN beyond all others; and back. Of integers compilers
// find the least and the greatest by vectors.
inline std::int64_t rank_of(double value) {
    const auto bits = std::bit_cast<std::int64_t>(value);
    return bits ^ ((bits < 0 ? -1 : 0) & std::numeric_limits<std::int64_t>::max());
}
inline double of_rank(std::int64_t rank) {
    return std::bit_cast<double>(rank ^
                                 ((rank < 0 ? -1 : 0) & std::numeric_limits<std::int64_t>::max()));
}

DOPE_WIDE_VECTORS Extent extent_of(const double* x, Index count) {
    std::int64_t low = std::numeric_limits<std::int64_t>::max();
    std::int64_t high = std::numeric_limits<std::int64_t>::min();
    for (Index t = 0; t < count; ++t) {
        const std::int64_t rank = rank_of(x[t]);
        low = std::min(low, rank);
        high = std::max(high, rank);
    }
    double total[kLanes] = {};
    const Index whole = count - count % kLanes;
    for (Index t = 0; t < whole; t += kLanes) {
        for (int j = 0; j < kLanes; ++j) total[j] += std::fabs(x[t + j]);
    }
    for (Index t = whole; t < count; ++t) total[t - whole] += std::fabs(x[t]);
    double all = 0.0;
    for (const double one : total) all += one;
    return {of_rank(low), of_rank(high), all};
}

// Whether all x * factor, times a power of two, are whole numbers; of numbers that end below 2^52.
// Adding 2^52 to a number of [0, 2^52) rounds it to a whole one.
DOPE_WIDE_VECTORS bool small_ones_whole(const double* x, Index count, double factor, double power) {
    double off[kLanes] = {};
    const Index whole = count - count % kLanes;
    for (Index t = 0; t < whole; t += kLanes) {
        for (int j = 0; j < kLanes; ++j) {
            const double size = std::fabs((x[t + j] * factor) * power);
            off[j] += std::fabs(((size + kWhole) - kWhole) - size);
        }
    }
    for (Index t = whole; t < count; ++t) {
        const double size = std::fabs((x[t] * factor) * power);
        off[t - whole] += std::fabs(((size + kWhole) - kWhole) - size);
    }
    double all = 0.0;
    for (const double one : off) all += one;
    return all == 0.0;
}

bool all_whole(const double* x, Index count, double factor, double power, double largest) {
    if (std::fabs(largest * factor) * power < kWhole) {
        return small_ones_whole(x, count, factor, power);
    }
    return std::all_of(x, x + count, [&](double value) {
        const double scaled = (value * factor) * power;
        return std::rint(scaled) == scaled;
    });
}

class Scanner {
  public:
    Scanner(double factor, int most) : factor_(factor), most_(most) {
        if (most < 0) found_.places.reset();
    }

    void look(const double* x, Index count) {
        const Extent here = extent_of(x, count);
        if (found_.beyond < 0) {
            if (!std::isfinite(here.total)) find_beyond(x, count);
            found_.low = seen_ == 0 ? here.low : std::min(found_.low, here.low);
            found_.high = seen_ == 0 ? here.high : std::max(found_.high, here.high);
            add_to_total(here.total);
        }
        if (found_.places) find_places(x, count, std::max(std::fabs(here.low), here.high));
        seen_ += count;
    }

    Scan found() const {
        Scan all = found_;
        all.total = std::isfinite(found_.total) ? found_.total + lost_ : found_.total;
        return all;
    }

  private:
    void find_beyond(const double* x, Index count) {
        const auto* first =
            std::find_if_not(x, x + count, [](double v) { return std::isfinite(v); });
        if (first != x + count) found_.beyond = seen_ + (first - x);
    }

    // By Knuth's two-sum: what rounding takes is kept apart.
    void add_to_total(double value) {
        const double next = found_.total + value;
        const double added = next - found_.total;
        lost_ += (found_.total - (next - added)) + (value - added);
        found_.total = next;
    }

    void find_places(const double* x, Index count, double largest) {
        int places = *found_.places;
        while (!all_whole(x, count, factor_, std::ldexp(1.0, places), largest)) {
            if (++places > most_) {
                found_.places.reset();
                return;
            }
        }
        found_.places = places;
    }

    double factor_;
    int most_;
    Scan found_;
    double lost_ = 0.0;
    Index seen_ = 0;
};

template <class T>
Scan scan_view(const View<T>& values, const Point& shape, double factor, int most,
               const Poll& poll) {
    Scanner scanner(factor, most);
    if (volume(shape) == 0) return scanner.found();
    const Folded axes = folded(shape, {values.strides});
    const View<T> view{values.start, axes.strides[0], nullptr};
    const Index step = view.strides.back();
    std::vector<double> buffer(kRun);  // short runs, and other types, are put together here
    Index held = 0;
    const auto look_at_held = [&] {
        if (held > 0) scanner.look(buffer.data(), held);
        held = 0;
    };
    constexpr Index kLong = kRun / 4;
    constexpr Index kBetweenPolls = 64 * kRun;
    Index polled = 0;
    for_each_run(whole(axes.shape), [&](const Point& first, Index length) {
        if (polled <= 0) {
            if (poll && poll()) throw Interrupted();
            polled = kBetweenPolls;
        }
        polled -= length;
        const T* from = view.at(first);
        if constexpr (std::is_same_v<T, double>) {
            if (step == 1 && length >= kLong) {
                look_at_held();
                return scanner.look(from, length);
            }
        }
        if (held + length > kRun) look_at_held();
        read_run(from, step, length, buffer.data() + held);
        held += length;
    });
    look_at_held();
    return scanner.found();
}

}  // namespace

Scan scan(const PixelView& values, const Point& shape, double factor, int most, const Poll& poll) {
    return std::visit([&](const auto& view) { return scan_view(view, shape, factor, most, poll); },
                      values);
}

}  // namespace dope
