#include "mean_field.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "pause.h"
#include "portable_exp.h"

namespace dope {

namespace {

constexpr Index kBetweenPolls = 1 << 12;

// A smaller change of q waits until it has grown: most sites are settled when it is cold.
constexpr double kWorthTelling = 1e-5;

// A number between -1 and 1 for each site, any but always the same.
double lot(Index site) {
    std::uint64_t x = static_cast<std::uint64_t>(site) + 0x9E3779B97F4A7C15u;  // splitmix64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-52 - 1.0;
}

template <class Kind>
class MeanFieldOf final : public MeanField {
  public:
    explicit MeanFieldOf(std::shared_ptr<const Kind> neighbors) : neighbors_(std::move(neighbors)) {
        Pause pause;
        for (Index i = 0; i < sites(); ++i) {
            pause(16);
            double sum = 0.0;
            neighbors_->visit(i, [&](Index, double w) { sum += std::abs(w); });
            strength_ = std::max(strength_, sum);
            mean_strength_ += sum / static_cast<double>(sites());
        }
    }

    Index sites() const override { return neighbors_->sites(); }
    double strength() const override { return strength_; }
    double mean_strength() const override { return mean_strength_; }

    void run(const double* unary, const Cooling& cooling, double* q,
             const Poll& poll) const override {
        std::fill(q, q + sites(), 0.5);
        // Where labels could be swapped at no cost, q = 1/2 would stay for ever: a field of a
        // hundredth of the last temperature decides.
        std::vector<double> field(unary, unary + sites());
        for (Index i = 0; i < sites(); ++i) field[i] += 0.01 * cooling.cold * lot(i);
        bool up = true;
        for (double t = cooling.hot; t >= cooling.cold; t *= cooling.factor) {
            for (Index k = 0; k < sites(); ++k) {
                if (k % kBetweenPolls == 0 && poll()) throw Interrupted();
                settle(up ? k : sites() - 1 - k, t, field, q);
            }
            up = !up;
        }
    }

  private:
    void settle(Index i, double t, std::vector<double>& field, double* q) const {
        const double now = 1.0 / (1.0 + portable_exp(field[i] / t));
        const double change = now - q[i];
        if (std::abs(change) < kWorthTelling) return;
        q[i] = now;
        neighbors_->visit(i, [&](Index j, double w) { field[j] -= 2.0 * w * change; });
    }

    std::shared_ptr<const Kind> neighbors_;
    double strength_ = 0.0, mean_strength_ = 0.0;
};

}  // namespace

std::unique_ptr<MeanField> mean_field(const Neighbors& neighbors) {
    return neighbors.at_work<MeanField, MeanFieldOf>();
}

}  // namespace dope
