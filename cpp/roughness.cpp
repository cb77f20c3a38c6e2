#include "roughness.h"

#include <cmath>
#include <cstring>

#include "sum_apart.h"
#include "wide_vectors.h"

namespace dope {

namespace {

// Sums side by side, so that they are added up by vectors, each with what rounding took from it.
constexpr int kLanes = 8;

struct Lanes {
    double sum[kLanes] = {};
    double lost[kLanes] = {};

    void add(std::span<const double> values);
    double rounded() const;
};

// By Knuth's two-sum: `next` and what is lost add up to the old sum and the value exactly.
inline void two_sum(double& sum, double& lost, double value) {
    const double next = sum + value;
    const double added = next - sum;
    lost += (sum - (next - added)) + (value - added);
    sum = next;
}

DOPE_WIDE_VECTORS void add_to_lanes(const double* values, Index count, double* sums,
                                    double* losts) {
    double sum[kLanes];
    double lost[kLanes];
    std::copy_n(sums, kLanes, sum);
    std::copy_n(losts, kLanes, lost);
    for (Index t = 0; t < count; t += kLanes) {
        for (int j = 0; j < kLanes; ++j) two_sum(sum[j], lost[j], values[t + j]);
    }
    std::copy_n(sum, kLanes, sums);
    std::copy_n(lost, kLanes, losts);
}

void Lanes::add(std::span<const double> values) {
    const auto count = static_cast<Index>(values.size());
    const Index whole = count - count % kLanes;
    add_to_lanes(values.data(), whole, sum, lost);
    for (Index t = whole; t < count; ++t) two_sum(sum[t - whole], lost[t - whole], values[t]);
}

double Lanes::rounded() const {
    double all = 0.0;
    double all_lost = 0.0;
    for (const double one : sum) two_sum(all, all_lost, one);
    for (const double one : lost) all_lost += one;
    // A sum beyond double is infinite, and there is no saying what it lost.
    return std::isfinite(all) ? all + all_lost : all;
}

// Writes the places t < length at which bytes of p and q are not both zero or both not, and returns
// how many. Most words of eight are alike; in those that are not, every byte is written down and
// kept if it counts, without a branch that nobody could predict.
Index find_apart(const std::uint8_t* p, const std::uint8_t* q, Index length, Index* places) {
    Index found = 0;
    const auto look = [&](Index t) {
        places[found] = t;
        found += (p[t] != 0) != (q[t] != 0);
    };
    constexpr Index kWord = sizeof(std::uint64_t);
    constexpr Index kWords = 8;
    Index t = 0;
    const auto differ = [&](Index at) {
        std::uint64_t a;
        std::uint64_t b;
        std::memcpy(&a, p + at, kWord);
        std::memcpy(&b, q + at, kWord);
        return a ^ b;
    };
    for (; t + kWords * kWord <= length; t += kWords * kWord) {
        std::uint64_t any = 0;
        for (Index w = 0; w < kWords; ++w) any |= differ(t + w * kWord);
        if (any == 0) continue;
        for (Index w = 0; w < kWords; ++w) {
            const Index low = t + w * kWord;
            if (differ(low) == 0) continue;
            for (Index k = 0; k < kWord; ++k) look(low + k);
        }
    }
    for (; t < length; ++t) look(t);
    return found;
}

// Labels: weights count as they are.
struct LabelsApart {
    using Value = std::uint8_t;
    using Sum = ExactSum;
    static Index find(const Value* p, const Value* q, Index length, Index* places) {
        return find_apart(p, q, length, places);
    }
    static std::span<const double> counted(std::span<const double> weights) { return weights; }
};

// Numbers: a weight counts as often as the square of their difference says.
class NumbersApart {
  public:
    using Value = double;
    using Sum = Lanes;

    Index find(const double* p, const double* q, Index length, Index* places) {
        const auto end = static_cast<std::size_t>(size_ + length + 1);
        if (squares_.size() < end) squares_.resize(end);
        double* squares = squares_.data() + size_;
        Index found = 0;
        const auto look = [&](Index t) {
            const double change = p[t] - q[t];
            places[found] = t;
            squares[found] = change * change;
            found += change != 0.0;
        };
        constexpr Index kAtOnce = 16;  // of which most are alike
        Index t = 0;
        for (; t + kAtOnce <= length; t += kAtOnce) {
            bool any = false;
            for (Index k = 0; k < kAtOnce; ++k) any |= p[t + k] != q[t + k];
            if (!any) continue;
            for (Index k = 0; k < kAtOnce; ++k) look(t + k);
        }
        for (; t < length; ++t) look(t);
        size_ += found;
        return found;
    }

    std::span<const double> counted(std::span<const double> weights) {
        for (std::size_t k = 0; k < weights.size(); ++k) squares_[k] *= weights[k];
        size_ = 0;
        return {squares_.data(), weights.size()};
    }

  private:
    Index size_ = 0;
    std::vector<double> squares_;  // of pairs whose weights are still to come
};

void add_all(std::span<const double> values, Lanes& sum) { sum.add(values); }

}  // namespace

ExactSum roughness(const GridWeights& weights, const std::uint8_t* labels, const Box& box) {
    return sum_apart(weights, labels, box, LabelsApart());
}

double roughness(const GridWeights& weights, const double* y, const Box& box) {
    return sum_apart(weights, y, box, NumbersApart()).rounded();
}

}  // namespace dope
