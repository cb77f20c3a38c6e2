#include "contrast.h"

#include <cmath>

namespace dope {

Contrast contrast(const Features& features, const Point& shape, const std::vector<Point>& offsets,
                  const Box& box, double unit) {
    constexpr double kTermLimit = 0x1p62;
    Contrast total;
    std::vector<double> row(kRun);
    for (const Point& offset : offsets) {
        const Box pairs = tails(box, shape, offset);
        total.pairs += pairs.sites();
        for_each_run(pairs, [&](const Point& first, Index length) {
            squared_distances(features, first, offset, length, row.data());
            for (Index t = 0; t < length; ++t) {
                const double term = std::nearbyint(row[static_cast<std::size_t>(t)] / unit);
                if (!(term < kTermLimit)) {
                    Point p = first;
                    p.back() += t;
                    throw std::invalid_argument("the squared difference of the pair at site " +
                                                text(p) + ", offset " + text(offset) + " is " +
                                                std::to_string(row[static_cast<std::size_t>(t)]) +
                                                ": expected a finite number below 2^62 units");
                }
                total.sum.add(static_cast<std::uint64_t>(term));
            }
        });
    }
    return total;
}

}  // namespace dope
