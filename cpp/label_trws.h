// Sequential tree-reweighted message passing for any number of labels (Kolmogorov, Convergent
// tree-reweighted message passing for energy minimization, 2006), weights and V of any sign.
//
// Every pair keeps one message M, a number for every label of one of its ends j:
//
//     E(x) = sum_i t_i(x_i) + sum_{pairs} (w_ij V(x_i, x_j) - M(x_j)),     t_j = c_j + sum of its M
//
// whatever the messages are. A pass goes from site to site, up or down. At site i it gives
// least = min t_i to the bound, and what is left of t_i, which is 0 or more, in equal parts
// g = 1 / max(pairs ahead, pairs behind) to the pairs ahead; each of these turns its message round,
//
//     f(b) = min_a (g (t_i(a) - least) - M(a) + w V(a, b)),   M <- f - min f,   bound += min f
//
// so that what is left of the pair is 0 or more as well. Nothing else was dropped: at the end of
// any pass the bound is one. That holds for whatever M was kept, so M may be kept in float32: what
// the rounding claims too much is taken off again, pair by pair. Of labels a site takes the one
// that is cheapest given the labels of those behind and the messages of those ahead.
//
// A site needs nothing but what those behind it have done. So lines of a grid are at work at the
// same time, each a little behind those before it, and every number is the same as one by one.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "flow_types.h"
#include "label_metric.h"
#include "neighbors.h"

namespace dope {

// Numbers in row-major order, one site after the other.
using SiteCosts = std::variant<const std::uint8_t*, const std::uint16_t*, const std::int16_t*,
                               const std::int32_t*, const float*, const double*>;

struct LabelProblem {
    SiteCosts costs;  // sites x labels, finite
    const std::uint8_t*
        inside;  // sites that are not cost nothing, whatever is written there; or null
    LabelMetric metric;
    const double* tables;  // of a graph: labels x labels for every pair instead; or null
    std::vector<std::shared_ptr<const void>> keep;  // owners of these arrays
};

class LabelTrws {
  public:
    virtual ~LabelTrws() = default;
    virtual Index sites() const = 0;
    virtual Index labels() const = 0;

    // So many more rounds, of a pass up and a pass down, from the messages as they are; fewer
    // where the gap closes: all energies are multiples of `unit`, or it is 0. The threads change
    // nothing but the time it takes. After an Interrupted messages begin again from 0.
    virtual void run(Index rounds, double unit, Index threads, const Poll& poll) = 0;

    // The best that a pass came by, and how many rounds there were.
    virtual const std::vector<std::uint16_t>& best() const = 0;
    virtual double energy() const = 0;
    virtual double bound() const = 0;           // may be off by
    virtual double rounding_error() const = 0;  // this
    virtual Index rounds() const = 0;
};

// With `single` messages take half the memory.
std::unique_ptr<LabelTrws> label_trws(const Neighbors& neighbors, const LabelProblem& problem,
                                      bool single);

}  // namespace dope
