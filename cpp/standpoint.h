// An energy seen from labels y: what every flip costs, kept up to date while labels move.
//
//     price_i = u_i + sum_j w_ij (1 - 2 y_j)                    of label 1 over label 0 at site i
//     tangent_i = u_i + sum_{j: w_ij < 0} w_ij (1 - 2 y_j)      the same from repulsive pairs only
//
// With d = z - y, E(z) - E(y) = sum_i d_i price_i - 2 sum_{pairs} w_ij d_i d_j. Repulsive pairs
// taken to first order about y, the energy is tangent'z plus the attractive pairs, and the sum runs
// over attractive pairs only.
#pragma once

#include <memory>

#include "flow_types.h"
#include "neighbors.h"

namespace dope {

struct Falls {
    double actual;     // E(y) - E(z)
    double predicted;  // the same with repulsive pairs to first order
};

class Standpoint {
  public:
    virtual ~Standpoint() = default;

    virtual Index sites() const = 0;
    virtual void stand(const double* unary, const std::uint8_t* labels) = 0;
    virtual Falls falls(const std::uint8_t* to) const = 0;
    virtual void move(const std::uint8_t* to) = 0;

    // Flip what pays most, then what pays most next, until nothing does; how many flips there were.
    // Of equals the lower site. A gain within the rounding of its own sum is none: without this,
    // noise could flip for ever.
    virtual Index descend(Index most) = 0;

    // sum over repulsive pairs of 2 |w_ij|, of the neighbors j that stand before i in the order.
    virtual void repelled_before(const std::int64_t* rank, double* out) const = 0;

    virtual const std::uint8_t* labels() const = 0;
    virtual const double* prices() const = 0;
    virtual const double* tangents() const = 0;

    // sum over repulsive pairs of |w_ij|.
    virtual const double* repulsion() const = 0;
};

std::unique_ptr<Standpoint> standpoint(const Neighbors& neighbors);

}  // namespace dope
