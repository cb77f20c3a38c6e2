// Sequential tree-reweighted message passing for two labels (Kolmogorov, Convergent tree-reweighted
// message passing for energy minimization, 2006), weights of any sign.
//
// Every pair keeps one message m, which adds m y_j to the price of one of its ends j:
//
//     E(y) = sum_i t_i y_i + sum_{pairs} (w_ij |y_i - y_j| - m y_j),     t_j = u_j + sum of its m
//
// whatever the messages are. A pass goes from site to site, up or down. At site i it gives the
// label min(0, t_i) to the bound, and the rest of t_i y_i, which is 0 or more, in equal parts
// g = 1 / max(pairs ahead, pairs behind) to the pairs ahead; each of these turns its message round,
//
//     f(y_j) = min_y (g (t_i y - min(0, t_i)) - m y + w |y - y_j|),   m <- f(1) - f(0),   bound +=
//     f(0)
//
// so that what is left of the pair is 0 or more as well. Nothing else was dropped: at the end of
// any pass the bound is one. Messages stay within |w|.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "flow_types.h"
#include "neighbors.h"

namespace dope {

struct TrwsLimits {
    Index rounds;      // of a pass up and a pass down
    double tolerance;  // stop where ten rounds close less than this fraction of the gap
    double unit;       // of which all energies are multiples, or 0: a smaller gap is none
};

struct TrwsFound {
    std::vector<std::uint8_t> labels;  // the best that a pass came by
    double bound;                      // the best of all passes; it may be off by `rounding_error`
    double rounding_error;
    Index rounds;
};

class Trws {
  public:
    virtual ~Trws() = default;
    virtual Index sites() const = 0;
    // From messages of 0 each time. Several threads may do so at once.
    virtual TrwsFound run(const double* unary, const TrwsLimits& limits,
                          const Poll& poll) const = 0;
};

std::unique_ptr<Trws> trws(const Neighbors& neighbors);

}  // namespace dope
