// What one block of a partition feels of the others. For a site i of the block, with q_i the number
// of blocks that hold i:
//
//     (A y)_i = (1 / q_i) sum_{j ~ i} w_ij c_ij (y_i - y_j),     c_ij = 1 if j is outside the
//     block, else 1 - 1/q_j
//
// Only arcs with c_ij != 0 are visited, so the cost goes with the seams and not with the block.
#pragma once

#include <vector>

#include "grid_weights.h"

namespace dope {

// Coordinates along one axis, or places in a run.
struct Interval {
    Index low;
    Index high;
};

class GridCoupling {
  public:
    // `weights` are those of the region, which holds the block and all neighbors of its sites;
    // `counts` is q per axis over the region, all >= 1. A site's q is the product over its axes.
    GridCoupling(GridWeights weights, Box block, std::vector<std::vector<double>> counts);

    const Point& region() const { return weights_.shape(); }
    const Point& block_shape() const { return block_shape_; }

    void apply(const double* y, double* out) const;         // region -> block: A y
    void transpose(const bool* labels, double* out) const;  // block -> region: A' labels
    void strength(double* out) const;                       // block: sum_j |w_ij| c_ij / q_i
    void coupled(bool* out) const;  // block: q_i > 1, or some neighbor has c_ij != 0

  private:
    // Where a run of arcs i -> j begins in arrays of the block and of the region.
    struct Run {
        Index i_in_block;
        Index i;
        Index j;
        Index length;
    };

    // Outside the block, or in other blocks as well, on one of the first axes.
    bool foreign(const Point& site, std::size_t axes) const;
    void share(const Point& i, const Point& j, Index length, double* weight) const;

    // visit(i, j, length) for the runs of arcs from i to j = i + step in which c_ij != 0.
    template <class Visit>
    void for_each_coupled_run(const Point& step, Visit&& visit) const;

    // visit(run, w_ij c_ij / q_i) for these runs, over all neighbors; `wanted(run)` says for which
    // part of the run the weights are worth computing.
    template <class Wanted, class Visit>
    void for_each_shared_run(Wanted&& wanted, Visit&& visit) const;

    GridWeights weights_;
    Box block_;
    Point block_shape_;
    std::vector<std::vector<double>> counts_;
    std::vector<Interval>
        seams_;  // along the last axis: outside the block, or in other blocks as well
};

}  // namespace dope
