#include "balance.h"

#include <cmath>

#include "wide_vectors.h"

namespace dope {

namespace {

// What is left at every place when this flows out of it, and to the place a step further on.
DOPE_WIDE_VECTORS void leave(const float* flow, std::size_t step, std::size_t places, float* left) {
    const float* in = flow - step;
    for (std::size_t p = 0; p < places; ++p) left[p] += in[p] - flow[p];
}

DOPE_WIDE_VECTORS void move(const float* left, std::size_t step, const float* limit,
                            std::size_t places, float pace, float momentum, float* flow,
                            float* ahead) {
    const float* there = left + step;
    for (std::size_t p = 0; p < places; ++p) {
        const float wish = ahead[p] + pace * (left[p] - there[p]);
        const float raised = wish < -limit[p] ? -limit[p] : wish;
        const float now = limit[p] < raised ? limit[p] : raised;
        ahead[p] = now + momentum * (now - flow[p]);
        flow[p] = now;
    }
}

}  // namespace

void Balance::solve(int times) {
    // No more than the inverse of the greatest curvature, 4 per arc of a site and direction.
    const float pace = 0.25F / static_cast<float>(arcs_.size());
    for (Arcs& arcs : arcs_) arcs.ahead = arcs.flow;
    double before = 1;
    for (int t = 0; t < times; ++t) {
        const double now = (1 + std::sqrt(1 + 4 * before * before)) / 2;
        const auto momentum = static_cast<float>((before - 1) / now);
        before = now;
        std::copy(excess_.begin(), excess_.end(), left_.begin());
        for (const Arcs& arcs : arcs_) {
            leave(arcs.ahead.data() + reach_, arcs.step, places_, left_.data());
        }
        for (Arcs& arcs : arcs_) {
            move(left_.data(), arcs.step, arcs.limit.data() + reach_, places_, pace, momentum,
                 arcs.flow.data() + reach_, arcs.ahead.data() + reach_);
        }
    }
}

}  // namespace dope
