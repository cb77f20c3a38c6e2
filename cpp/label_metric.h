// What the ends of a pair pay for their labels a and b, times the pair's weight: V(a, b) is
//
//     Potts       1 where a and b differ
//     linear      min(|a - b|, limit)
//     quadratic   min((a - b)^2, limit)
//     table       any L x L numbers, of the lower site's label first
#pragma once

#include <cstdint>
#include <vector>

#include "box.h"

namespace dope {

class LabelMetric {
  public:
    enum class Kind : std::uint8_t { kPotts, kLinear, kQuadratic, kTable };

    // Trusts its arguments: 2 labels or more, limit >= 0.
    LabelMetric(Kind kind, Index labels, double limit);
    LabelMetric(Index labels, std::vector<double> table);

    Kind kind() const { return kind_; }
    Index labels() const { return labels_; }
    double least() const { return least_; }
    double most() const { return most_; }
    // Labels further apart than this pay most(): of linear and quadratic ones, 0 for Potts.
    Index reach() const { return reach_; }

    // V(a, b) for all b; for all but tables also V(b, a).
    const double* row(Index a) const {
        return kind_ == Kind::kTable ? values_.data() + a * labels_
                                     : values_.data() + labels_ - 1 - a;
    }

  private:
    Kind kind_;
    Index labels_;
    double least_ = 0.0, most_ = 0.0;
    Index reach_ = 0;
    std::vector<double> values_;  // the table, or V by b - a, from 1 - L to L - 1
};

}  // namespace dope
