// The roof dual of an energy whose pairs have weights of any sign, as a flow: the energy F of
// src/dope/roof_dual.py, in which every site i is there twice, as y_i and as y'_i = 1 - y_i:
//
//     w > 0    arcs between y_i and y_j, and between y'_i and y'_j
//     w < 0    arcs between y_i and y'_j, and between y'_i and y_j
//     u_i      the unary of y_i, and minus it that of y'_i
//
// y_i is site 2 i of the network and y'_i site 2 i + 1, so that both are in one cache line.
//
// All minimum cuts agree where a source reaches y_i or y'_i. Other labels that some minimum has are
// found in what is left: if y_i is 1 in a minimum cut, so is whatever y_i reaches over open arcs.
// So the sites that are left are the clauses of a 2-SAT problem (Aspvall, Plass, Tarjan 1979): a
// site has a label if y_i and y'_i are not in one strongly connected component, and takes it from
// whichever of the two comes later in a topological order of the components (Billionnet, Jaumard
// 1989; Kolmogorov, Rother 2007). Who reaches whom is the same whatever the maximum flow (Picard,
// Queyranne 1980). Of the topological orders the one is taken in which the lowest number goes
// first, so that labels do not depend on the flow either.
#pragma once

#include <memory>

#include "exact_sum.h"
#include "flow.h"

namespace dope {

class RoofFlow {
  public:
    virtual ~RoofFlow() = default;

    virtual std::int64_t sites() const = 0;
    virtual void minimize(const double* unary, const Poll& poll) = 0;
    // Only of these sites: the work is in proportion to the change.
    virtual void change(const std::int64_t* sites, const double* unary, std::size_t count,
                        const Poll& poll) = 0;

    // Writes which sites have a label, and 1 where that is label 1: in all minima or, if asked for,
    // also in some minimum, together.
    virtual void labels(bool of_some, bool* known, bool* label, const Poll& poll) = 0;
    // Of F, in units of 1 / scale.
    virtual ExactSum minimum() const = 0;
    virtual void check() = 0;
    virtual std::size_t bytes() const = 0;
};

std::unique_ptr<RoofFlow> roof_flow(std::int64_t sites, Ends ends, const double* weights,
                                    std::size_t pairs, double scale, int bits);

}  // namespace dope
