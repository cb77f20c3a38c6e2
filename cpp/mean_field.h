// Naive mean field: every site on its own, label 1 with probability q_i, in the field of the
// others:
//
//     f_i = u_i + sum_j w_ij (1 - 2 q_j),     q_i = 1 / (1 + exp(f_i / T))
//
// site after site, up and down by turns, while the temperature T falls.
#pragma once

#include <cstdint>
#include <memory>

#include "flow_types.h"
#include "neighbors.h"

namespace dope {

struct Cooling {
    double hot, cold;  // the first temperature and the lowest
    double factor;     // below 1: from sweep to sweep
};

class MeanField {
  public:
    virtual ~MeanField() = default;
    virtual Index sites() const = 0;
    // The sum of |w_ij| over the neighbors of a site: the greatest, and on average.
    virtual double strength() const = 0;
    virtual double mean_strength() const = 0;
    // The q at the end, from 1/2 everywhere. Several threads may do so at once.
    virtual void run(const double* unary, const Cooling& cooling, double* q,
                     const Poll& poll) const = 0;
};

std::unique_ptr<MeanField> mean_field(const Neighbors& neighbors);

}  // namespace dope
