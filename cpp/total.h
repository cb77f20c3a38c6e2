#pragma once

#include <cstdint>

namespace dope {

// A sum of integers that may exceed 63 bits: high * 2^20 + low.
class Total {
  public:
    void add(std::int64_t term) {
        high_ += term >> 20;
        low_ += term & ((1 << 20) - 1);
    }
    std::int64_t high() const { return high_; }
    std::int64_t low() const { return low_; }
    double value() const { return static_cast<double>(high_) * 0x1p20 + static_cast<double>(low_); }

  private:
    std::int64_t high_ = 0;
    std::int64_t low_ = 0;
};

}  // namespace dope
