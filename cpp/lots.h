// Lots to draw: the same on every platform.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "portable_exp.h"

namespace dope {

inline std::uint64_t mixed(std::uint64_t x) {  // splitmix64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

class Lots {
  public:
    explicit Lots(std::uint64_t seed) : state_(mixed(seed + kStep)) {}

    std::uint64_t bits() { return mixed(state_ += kStep); }

    // 0 to below - 1, all as likely but for 1 in 2^32; `below` under 2^32.
    std::uint64_t index(std::uint64_t below) { return ((bits() >> 32) * below) >> 32; }

    // 0 or more, e^-x as likely to be above x.
    float exponential() {
        const std::uint64_t k = bits() >> (64 - kBits);
        if (k != 0) return table()[k];
        // Beyond the table's last step an exponential begins anew.
        return kBits * 0.693147180559945f + table()[bits() >> (64 - kBits)];
    }

  private:
    static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;
    static constexpr int kBits = 12;
    using Table = std::array<float, std::size_t{1} << kBits>;

    // -log((k + 1/2) / 2^kBits), by Newton's steps from below.
    static const Table& table() {
        static const Table values = [] {
            Table made{};
            for (std::size_t k = 0; k < made.size(); ++k) {
                const double u = (static_cast<double>(k) + 0.5) / static_cast<double>(made.size());
                double x = 0.0;
                for (int step = 0; step < 24; ++step) x += 1.0 - u * portable_exp(x);
                made[k] = static_cast<float>(x);
            }
            return made;
        }();
        return values;
    }

    std::uint64_t state_;
};

}  // namespace dope
