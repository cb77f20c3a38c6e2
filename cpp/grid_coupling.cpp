#include "grid_coupling.h"

#include <array>
#include <cmath>

#include "pause.h"

namespace dope {

namespace {

Point minus(const Point& a, const Point& b) {
    Point out = a;
    for (std::size_t k = 0; k < a.size(); ++k) out[k] -= b[k];
    return out;
}

// From the first t in [0, length) that is `worth` it to behind the last; empty if none is.
template <class Worth>
Interval between(Index length, Worth&& worth) {
    Interval part{0, length};
    while (part.low < part.high && !worth(part.low)) ++part.low;
    while (part.low < part.high && !worth(part.high - 1)) --part.high;
    return part;
}

}  // namespace

GridCoupling::GridCoupling(GridWeights weights, Box block, std::vector<std::vector<double>> counts)
    : weights_(std::move(weights)),
      block_(std::move(block)),
      block_shape_(minus(block_.high, block_.low)),
      counts_(std::move(counts)) {
    const std::size_t last = region().size() - 1;
    for (Index x = 0; x < region()[last]; ++x) {
        const bool inside = block_.low[last] <= x && x < block_.high[last];
        if (inside && counts_[last][static_cast<std::size_t>(x)] == 1.0) continue;
        if (!seams_.empty() && seams_.back().high == x) {
            ++seams_.back().high;
        } else {
            seams_.push_back({x, x + 1});
        }
    }
}

bool GridCoupling::foreign(const Point& site, std::size_t axes) const {
    for (std::size_t a = 0; a < axes; ++a) {
        if (site[a] < block_.low[a] || site[a] >= block_.high[a]) return true;
        if (counts_[a][static_cast<std::size_t>(site[a])] != 1.0) return true;
    }
    return false;
}

template <class Visit>
void GridCoupling::for_each_coupled_run(const Point& step, Visit&& visit) const {
    const std::size_t last = region().size() - 1;
    Point i(step.size());
    Point j(step.size());
    const auto visit_part = [&](Index low, Index high) {
        if (low >= high) return;
        i[last] = low;
        j[last] = low + step[last];
        visit(std::as_const(i), std::as_const(j), high - low);
    };
    Pause pause;
    for_each_run(tails(block_, region(), step), [&](const Point& first, Index length) {
        pause(8 * length);
        for (std::size_t a = 0; a < last; ++a) {
            i[a] = first[a];
            j[a] = first[a] + step[a];
        }
        const Index low = first[last];
        const Index high = low + length;
        if (foreign(j, last)) {
            visit_part(low, high);
            return;
        }
        for (const Interval& seam : seams_) {
            visit_part(std::max(low, seam.low - step[last]),
                       std::min(high, seam.high - step[last]));
        }
    });
}

// w_ij is in `weight` already; makes it w_ij c_ij / q_i.
void GridCoupling::share(const Point& i, const Point& j, Index length, double* weight) const {
    const std::size_t last = region().size() - 1;
    double i_count = 1.0;
    double j_count = 1.0;
    bool j_inside = true;
    for (std::size_t a = 0; a < last; ++a) {
        i_count *= counts_[a][static_cast<std::size_t>(i[a])];
        j_count *= counts_[a][static_cast<std::size_t>(j[a])];
        j_inside &= block_.low[a] <= j[a] && j[a] < block_.high[a];
    }
    const double* i_counts = counts_[last].data() + i[last];
    const double* j_counts = counts_[last].data() + j[last];
    for (Index t = 0; t < length; ++t) {
        const Index x = j[last] + t;
        const bool inside = j_inside && block_.low[last] <= x && x < block_.high[last];
        const double c = inside ? 1.0 - 1.0 / (j_count * j_counts[t]) : 1.0;
        weight[t] = weight[t] * c / (i_count * i_counts[t]);
    }
}

template <class Wanted, class Visit>
void GridCoupling::for_each_shared_run(Wanted&& wanted, Visit&& visit) const {
    const Point region_strides = row_major_strides(region());
    const Point block_strides = row_major_strides(block_shape_);
    const Index corner = dot(block_.low, block_strides);
    std::array<double, kRun> weight;
    Point tail;
    Point head;
    for (std::size_t m = 0; m < weights_.size(); ++m) {
        for (const bool forth : {true, false}) {
            const Point& offset = weights_.offsets()[m];
            const Point step = forth ? offset : minus(Point(offset.size(), 0), offset);
            for_each_coupled_run(step, [&](const Point& i, const Point& j, Index length) {
                Run run{dot(i, block_strides) - corner, dot(i, region_strides),
                        dot(j, region_strides), length};
                const Interval part = wanted(run);
                if (part.low >= part.high) return;
                run = {run.i_in_block + part.low, run.i + part.low, run.j + part.low,
                       part.high - part.low};
                tail = i;
                head = j;
                tail.back() += part.low;
                head.back() += part.low;
                weights_.row(m, forth ? tail : head, run.length, weight.data());
                share(tail, head, run.length, weight.data());
                visit(run, weight.data());
            });
        }
    }
}

void GridCoupling::apply(const double* y, double* out) const {
    std::fill_n(out, volume(block_shape_), 0.0);
    // Away from the borders of objects blocks agree and y is constant: nothing to weigh there.
    const auto varies = [&](const Run& run) {
        return between(run.length, [&](Index t) { return y[run.i + t] != y[run.j + t]; });
    };
    for_each_shared_run(varies, [&](const Run& run, const double* weight) {
        for (Index t = 0; t < run.length; ++t) {
            out[run.i_in_block + t] += weight[t] * (y[run.i + t] - y[run.j + t]);
        }
    });
}

void GridCoupling::transpose(const bool* labels, double* out) const {
    std::fill_n(out, volume(region()), 0.0);
    const auto labeled = [&](const Run& run) {
        return between(run.length, [&](Index t) { return labels[run.i_in_block + t]; });
    };
    for_each_shared_run(labeled, [&](const Run& run, const double* weight) {
        for (Index t = 0; t < run.length; ++t) {
            const double amount = labels[run.i_in_block + t] ? weight[t] : 0.0;
            out[run.i + t] += amount;
            out[run.j + t] -= amount;
        }
    });
}

void GridCoupling::strength(double* out) const {
    std::fill_n(out, volume(block_shape_), 0.0);
    const auto always = [](const Run& run) { return Interval{0, run.length}; };
    for_each_shared_run(always, [&](const Run& run, const double* weight) {
        for (Index t = 0; t < run.length; ++t) out[run.i_in_block + t] += std::abs(weight[t]);
    });
}

void GridCoupling::coupled(bool* out) const {
    const Point strides = row_major_strides(block_shape_);
    const Index corner = dot(block_.low, strides);
    std::fill_n(out, volume(block_shape_), false);
    const auto mark = [&](const Point& i, const Point&, Index length) {
        std::fill_n(out + (dot(i, strides) - corner), length, true);
    };
    const Point nowhere(region().size(), 0);
    for_each_coupled_run(nowhere, mark);  // sites of the block that other blocks hold too
    for (const Point& offset : weights_.offsets()) {
        for_each_coupled_run(offset, mark);
        for_each_coupled_run(minus(nowhere, offset), mark);
    }
}

}  // namespace dope
