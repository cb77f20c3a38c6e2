#include "neighbors.h"

#include <algorithm>
#include <stdexcept>

#include "pause.h"

namespace dope {

namespace {

// Whether all pairs of offset m weigh the same.
bool uniform(const GridWeights& weights, std::size_t m, const std::vector<double>& values) {
    const Point strides = row_major_strides(weights.shape());
    const Box tails = weights.tails(m);
    if (tails.empty()) return true;
    const double one = values[dot(tails.low, strides)];
    bool same = true;
    Pause pause;
    for_each_run(tails, [&](const Point& first, Index length) {
        pause(length);
        const double* run = values.data() + dot(first, strides);
        same = same && std::all_of(run, run + length, [&](double w) { return w == one; });
    });
    return same;
}

}  // namespace

GridNeighbors::GridNeighbors(const GridWeights& weights)
    : shape_(weights.shape()),
      strides_(row_major_strides(shape_)),
      reach_(shape_.size(), 0),
      sites_(volume(shape_)) {
    if (shape_.size() > kMostAxes) {
        throw std::invalid_argument("shape " + text(shape_) + " has " +
                                    std::to_string(shape_.size()) + " axes: expected at most " +
                                    std::to_string(kMostAxes));
    }
    std::vector<double> values(static_cast<std::size_t>(sites_));
    for (std::size_t m = 0; m < weights.size(); ++m) {
        const Point& step = weights.offsets()[m];
        const Box tails = weights.tails(m);
        if (tails.empty()) continue;
        for (std::size_t a = 0; a < step.size(); ++a) {
            reach_[a] = std::max(reach_[a], std::abs(step[a]));
        }
        weights.all(m, values.data());
        const Index distance = dot(step, strides_);
        if (uniform(weights, m, values)) {
            offsets_.push_back({step, distance, {values[dot(tails.low, strides_)]}, 0});
        } else {
            offsets_.push_back({step, distance, values, 1});
        }
        const Index lines = (distance - step.back()) / shape_.back();
        line_steps_.push_back(lines < 0 ? LineStep{-lines, -step.back()}
                                        : LineStep{lines, step.back()});
    }
}

GraphNeighbors::GraphNeighbors(Index sites, const std::int64_t* ends, const double* weights,
                               Index pairs)
    : start_(static_cast<std::size_t>(sites) + 1, 0),
      rows_(static_cast<std::size_t>(2 * pairs)),
      slots_(rows_.size()) {
    Pause pause;
    for (Index e = 0; e < 2 * pairs; ++e) {
        pause(4);
        if (ends[e] < 0 || ends[e] >= sites) {
            throw std::invalid_argument("an edge ends at site " + std::to_string(ends[e]) +
                                        ": expected 0 to " + std::to_string(sites - 1));
        }
        ++start_[ends[e] + 1];
    }
    for (Index i = 0; i < sites; ++i) start_[i + 1] += start_[i];
    std::vector<Index> next(start_.begin(), start_.end() - 1);
    for (Index e = 0; e < 2 * pairs; ++e) {
        pause(8);
        const Index k = next[ends[e]]++;
        rows_[k] = {ends[e ^ 1], weights[e / 2]};
        slots_[k] = e / 2;
    }
}

}  // namespace dope
