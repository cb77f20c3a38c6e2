// Pairs of any sign in 32-bit whole numbers, as searches go through them: half the memory of
// doubles, and what flips cost is kept by adding and subtracting, for ever, without rounding.
//
// Rows hold how far it is to a neighbor, and sites with equal rows share one: a grid whose weights
// are equal keeps a handful of rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "flow_types.h"
#include "neighbors.h"

namespace dope {

class WholePairs {
  public:
    struct Arc {
        Site step;            // to the neighbor
        std::int32_t weight;  // in units of 1 / scale(), never 0
    };

    explicit WholePairs(const Neighbors& neighbors);

    Site sites() const { return static_cast<Site>(first_.size()); }
    Index arcs() const { return arc_count_; }
    double scale() const { return scale_; }

    std::span<const Arc> row(Site i) const {
        return {arcs_.data() + first_[i], static_cast<std::size_t>(count_[i])};
    }

    // A unary in whole units. A site whose unary outweighs all its pairs gets kDecided, and no
    // search ever flips it from the better label.
    std::vector<std::int32_t> unary(const double* unary) const;
    static constexpr std::int32_t kDecided = std::int32_t{1} << 30;

    // The median over all sites of the most that a flip can change the energy; 1 or more.
    double typical_change(const std::vector<std::int32_t>& unary) const;

  private:
    template <class Kind>
    void read(const Kind& neighbors);

    double scale_ = 1.0;
    std::vector<Arc> arcs_;
    std::vector<Index> first_;            // where a site's row begins
    std::vector<std::int32_t> count_;     // and how long it is
    std::vector<std::int32_t> strength_;  // sum of |weight| over a site's row
    Index arc_count_ = 0;                 // of all sites, shared rows counted again
};

}  // namespace dope
