#include "label_messages.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "wide_vectors.h"

namespace dope {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Numbers of labels on either side up to which all of them are tried for a quadratic: several at
// once, that is sooner done than a lower envelope. Measured at 256 labels, AVX2.
constexpr Index kMostShifts = 48;

// Least of two, as one instruction.
DOPE_INLINE double lesser(double a, double b) { return a < b ? a : b; }

DOPE_INLINE double least_of(const double* x, Index count) {
    constexpr Index kLanes = 8;
    double lanes[kLanes];
    for (Index l = 0; l < kLanes; ++l) lanes[l] = kInfinity;
    Index k = 0;
    for (; k + kLanes <= count; k += kLanes) {
        for (Index l = 0; l < kLanes; ++l) lanes[l] = lesser(x[k + l], lanes[l]);
    }
    double least = kInfinity;
    for (; k < count; ++k) least = lesser(x[k], least);
    for (Index l = 0; l < kLanes; ++l) least = lesser(lanes[l], least);
    return least;
}

// min over b of x[b] + weight * y[b].
DOPE_INLINE double least_sum(const double* __restrict x, const double* __restrict y, double weight,
                             Index count) {
    constexpr Index kLanes = 8;
    double lanes[kLanes];
    for (Index l = 0; l < kLanes; ++l) lanes[l] = kInfinity;
    Index k = 0;
    for (; k + kLanes <= count; k += kLanes) {
        for (Index l = 0; l < kLanes; ++l) {
            lanes[l] = lesser(x[k + l] + weight * y[k + l], lanes[l]);
        }
    }
    double least = kInfinity;
    for (; k < count; ++k) least = lesser(x[k] + weight * y[k], least);
    for (Index l = 0; l < kLanes; ++l) least = lesser(lanes[l], least);
    return least;
}

DOPE_INLINE void cap(double* x, Index count, double most) {
    for (Index b = 0; b < count; ++b) x[b] = lesser(x[b], most);
}

// to(b) = the least of from(b) and from(b +- step) + price.
DOPE_INLINE void spread(const double* from, double* __restrict to, Index count, Index step,
                        double price) {
    for (Index b = 0; b < count; ++b) {
        to[b] = lesser(from[b], lesser(from[b - step], from[b + step]) + price);
    }
}

// A step of s labels costs s w, and every distance is a sum of the steps 1, 2, 4, ..., each made or
// not: log L passes over all labels at once, which is sooner done than two from label to label.
DOPE_INLINE double* linear(const LabelMetric& metric, double w, LabelRoom& room) {
    double *from = room.one(), *to = room.two();
    for (Index step = 1; step <= metric.reach(); step *= 2) {
        spread(from, to, metric.labels(), step, w * static_cast<double>(step));
        std::swap(from, to);
    }
    return from;
}

DOPE_INLINE double* quadratic_shifts(const LabelMetric& metric, double w, LabelRoom& room) {
    const double* from = room.one();
    double* __restrict to = room.two();
    const Index count = metric.labels();
    std::copy(from, from + count, to);
    for (Index step = 1; step <= metric.reach(); ++step) {
        const double price = w * static_cast<double>(step * step);
        for (Index b = 0; b < count; ++b) {
            to[b] = lesser(to[b], lesser(from[b - step], from[b + step]) + price);
        }
    }
    return to;
}

// The lower envelope of the parabolas h(a) + w (b - a)^2 (Felzenszwalb and Huttenlocher, Distance
// transforms of sampled functions, 2012). hull[k] is the lowest from borders[k] to borders[k + 1].
double* quadratic_envelope(const LabelMetric& metric, double w, LabelRoom& room) {
    const double* h = room.one();
    double *to = room.two(), *borders = room.borders();
    Index* hull = room.hull();
    const Index count = metric.labels();
    Index last = 0;
    hull[0] = 0;
    borders[0] = -kInfinity;
    const double half = 0.5 / w;
    for (Index a = 1; a < count; ++a) {
        double border;
        while (true) {
            const Index top = hull[last];
            border = 0.5 * static_cast<double>(a + top) +
                     half * (h[a] - h[top]) / static_cast<double>(a - top);
            if (border > borders[last] || last == 0) break;
            --last;
        }
        ++last;
        hull[last] = a;
        borders[last] = border;
    }
    borders[last + 1] = kInfinity;
    for (Index b = 0, k = 0; b < count; ++b) {
        const double at = static_cast<double>(b);
        while (borders[k + 1] < at) ++k;
        const double apart = at - static_cast<double>(hull[k]);
        to[b] = h[hull[k]] + w * (apart * apart);
    }
    return to;
}

// Any V: row by row of what the lower site's label costs, which is a; with `down` b.
DOPE_INLINE double* by_rows(const LabelMetric& metric, double w, const double* table, bool down,
                            LabelRoom& room) {
    const double* __restrict h = room.one();
    double* __restrict to = room.two();
    const Index count = metric.labels();
    if (!down) std::fill(to, to + count, kInfinity);
    const double span = table ? kInfinity : std::abs(w) * (metric.most() - metric.least());
    for (Index k = 0; k < count; ++k) {
        const double* __restrict row = table ? table + k * count : metric.row(k);
        if (down) {
            to[k] = least_sum(h, row, w, count);
        } else if (h[k] <= span) {  // otherwise the label of least h is cheaper everywhere
            for (Index b = 0; b < count; ++b) to[b] = lesser(to[b], h[k] + w * row[b]);
        }
    }
    return to;
}

DOPE_INLINE TurnedMessage turn(const LabelMetric& metric, double w, const double* table, bool down,
                               LabelRoom& room) {
    const Index count = metric.labels();
    double* h = room.one();
    const double base = least_of(h, count);
    for (Index a = 0; a < count; ++a) h[a] -= base;
    const auto kind = metric.kind();
    if (table || w < 0.0 || kind == LabelMetric::Kind::kTable) {
        double* f = by_rows(metric, w, table, down, room);
        const double least = least_of(f, count);
        for (Index b = 0; b < count; ++b) f[b] -= least;
        return {base + least, f};
    }
    // Some h is 0 and V >= 0: so is the least f. No label is dearer than w most(), before or after.
    cap(h, count, w * metric.most());
    if (kind == LabelMetric::Kind::kPotts || metric.reach() == 0) return {base, h};
    double* f = kind == LabelMetric::Kind::kLinear ? linear(metric, w, room)
                : metric.reach() <= kMostShifts    ? quadratic_shifts(metric, w, room)
                                                   : quadratic_envelope(metric, w, room);
    cap(f, count, w * metric.most());
    return {base, f};
}

// What the labels of the site at hand pay to a pair whose other end has this label.
DOPE_INLINE void add_price(const LabelMetric& metric, const PairAtHand& pair, bool down,
                           double* __restrict choice) {
    const Index count = metric.labels();
    const bool table = pair.table || metric.kind() == LabelMetric::Kind::kTable;
    if (table && down) {  // the other end is the higher site
        for (Index a = 0; a < count; ++a) {
            const double* row = pair.table ? pair.table + a * count : metric.row(a);
            choice[a] += pair.weight * row[pair.label];
        }
        return;
    }
    const double* __restrict row =
        pair.table ? pair.table + pair.label * count : metric.row(pair.label);
    for (Index a = 0; a < count; ++a) choice[a] += pair.weight * row[a];
}

template <class Message>
DOPE_INLINE void visit_any(SiteVisit<Message>& visit) {
    const LabelMetric& metric = *visit.metric;
    LabelRoom& room = *visit.room;
    const Index count = metric.labels();
    double* __restrict theta = room.theta();
    double* __restrict choice = room.choice();

    for (Index a = 0; a < count; ++a) choice[a] = theta[a];
    for (const PairAtHand& pair : visit.behind) add_price(metric, pair, visit.down, choice);
    // What is known of those ahead only helps to choose; the label's cost is without it.
    double* __restrict spoken = room.one();
    for (Index a = 0; a < count; ++a) spoken[a] = 0.0;
    for (const PairAtHand& pair : visit.ahead) {
        const Message* __restrict message = visit.messages + pair.slot * count;
        for (Index a = 0; a < count; ++a) spoken[a] += static_cast<double>(message[a]);
    }
    for (Index a = 0; a < count; ++a) {
        theta[a] += spoken[a];
        spoken[a] += choice[a];
    }
    const double best = least_of(spoken, count);
    visit.label = 0;
    while (visit.label + 1 < count && spoken[visit.label] != best) ++visit.label;
    visit.cost = choice[visit.label];

    for (const PairAtHand& pair : visit.behind) {
        const Message* __restrict message = visit.messages + pair.slot * count;
        for (Index a = 0; a < count; ++a) theta[a] += static_cast<double>(message[a]);
    }
    const double least = least_of(theta, count);
    visit.lower->add(least);
    for (Index a = 0; a < count; ++a) theta[a] = visit.part * (theta[a] - least);

    for (const PairAtHand& pair : visit.ahead) {
        Message* __restrict message = visit.messages + pair.slot * count;
        double* __restrict h = room.one();
        for (Index a = 0; a < count; ++a) h[a] = theta[a] - static_cast<double>(message[a]);
        const TurnedMessage found = turn(metric, pair.weight, pair.table, visit.down, room);
        double* __restrict f = found.f;
        for (Index b = 0; b < count; ++b) message[b] = static_cast<Message>(f[b]);
        visit.lower->add(found.least);
        if constexpr (sizeof(Message) < sizeof(double)) {
            // A message that was rounded up claims more than there is.
            for (Index b = 0; b < count; ++b) f[b] -= static_cast<double>(message[b]);
            visit.lower->add(least_of(f, count));
        }
    }
}

}  // namespace

LabelRoom::LabelRoom(Index labels)
    : labels_(labels),
      one_(static_cast<std::size_t>(3 * labels), kInfinity),
      two_(one_),
      theta_(static_cast<std::size_t>(labels)),
      choice_(theta_),
      borders_(static_cast<std::size_t>(labels + 1)),
      hull_(static_cast<std::size_t>(labels)) {}

TurnedMessage turned(const LabelMetric& metric, double weight, const double* table, bool down,
                     LabelRoom& room) {
    return turn(metric, weight, table, down, room);
}

DOPE_WIDE_VECTORS void visit_site(SiteVisit<float>& visit) { visit_any(visit); }
DOPE_WIDE_VECTORS void visit_site(SiteVisit<double>& visit) { visit_any(visit); }

}  // namespace dope
