// A sum that rounds about once, however many terms there are (Neumaier).
#pragma once

#include <cmath>

namespace dope {

class CompensatedSum {
  public:
    void add(double term) {
        const double next = sum_ + term;
        lost_ += std::abs(sum_) >= std::abs(term) ? (sum_ - next) + term : (term - next) + sum_;
        sum_ = next;
    }
    double value() const { return sum_ + lost_; }

  private:
    double sum_ = 0.0;
    double lost_ = 0.0;
};

}  // namespace dope
