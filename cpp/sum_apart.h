// Sums over the pairs that are apart, however that is told: their places are found row by row, and
// only their weights are computed.
#pragma once

#include <vector>

#include "exact_run.h"
#include "grid_weights.h"
#include "pause.h"

namespace dope {

inline void add_all(std::span<const double> values, ExactSum& sum) {
    double run[kMostInRun];  // which is used up
    for (std::size_t low = 0; low < values.size(); low += kMostInRun) {
        const auto part = values.subspan(low, std::min(kMostInRun, values.size() - low));
        std::copy(part.begin(), part.end(), run);
        add_run({run, part.size()}, sum);
    }
}

// Over the pairs (p, q) with p in `box`; y is in row-major order. `Apart` says of which Value y is
// and in which Sum to add up; find() writes the places of a row that are apart, and one more that
// does not count; counted() makes numbers to add of all weights since the last call.
template <class Apart>
typename Apart::Sum sum_apart(const GridWeights& weights, const typename Apart::Value* y,
                              const Box& box, Apart apart) {
    typename Apart::Sum total;
    if (box.empty()) return total;
    // A slab of y stays in the second-level cache while all offsets are looked at.
    constexpr Index kSlab = (1 << 17) / sizeof(typename Apart::Value);
    const Index rows = std::max<Index>(1, kSlab / (box.sites() / (box.high[0] - box.low[0])));
    const Point strides = row_major_strides(weights.shape());
    std::vector<Index> places(kRun + 1);  // one more is written than counts
    ScatteredWeights scattered(weights);
    Pause pause;
    const Index channels = weights.contrast_only() ? weights.contrast_only()->channels : 1;
    for (Index low = box.low[0]; low < box.high[0]; low += rows) {
        Box slab = box;
        slab.low[0] = low;
        slab.high[0] = std::min(box.high[0], low + rows);
        for (std::size_t m = 0; m < weights.size(); ++m) {
            const Point& offset = weights.offsets()[m];
            const auto visit = [&](const Point& first, Index length) {
                pause(length);
                const auto* p = y + dot(first, strides);
                const Index found = apart.find(p, p + dot(offset, strides), length, places.data());
                if (found > 0) scattered.put(m, first, places.data(), found);
                pause(found * (4 + channels));
                if (scattered.size() >= kRun) add_all(apart.counted(scattered.take(m)), total);
            };
            for_each_run(tails(slab, weights.shape(), offset), visit);
            add_all(apart.counted(scattered.take(m)), total);
        }
    }
    return total;
}

}  // namespace dope
