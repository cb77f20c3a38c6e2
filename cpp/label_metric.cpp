#include "label_metric.h"

#include <algorithm>
#include <cmath>

namespace dope {

LabelMetric::LabelMetric(Kind kind, Index labels, double limit) : kind_(kind), labels_(labels) {
    for (Index step = 1 - labels; step < labels; ++step) {
        const double apart = std::abs(static_cast<double>(step));
        values_.push_back(kind == Kind::kPotts    ? static_cast<double>(step != 0)
                          : kind == Kind::kLinear ? std::min(apart, limit)
                                                  : std::min(apart * apart, limit));
    }
    most_ = values_.back();
    if (kind == Kind::kPotts) return;
    for (Index step = 1; step < labels && values_[labels - 1 + step] < limit; ++step) reach_ = step;
}

LabelMetric::LabelMetric(Index labels, std::vector<double> table)
    : kind_(Kind::kTable),
      labels_(labels),
      least_(*std::min_element(table.begin(), table.end())),
      most_(*std::max_element(table.begin(), table.end())),
      values_(std::move(table)) {}

}  // namespace dope
