#include "label_sums.h"

#include <cstring>

#include "pause.h"
#include "sum_apart.h"

namespace dope {

namespace {

// Labels that cost something beside each other: a weight counts as often as that says.
template <class Label>
class LabelsPaying {
  public:
    using Value = Label;
    using Sum = ExactSum;

    explicit LabelsPaying(const LabelCosts& costs) : costs_(costs) {}

    Index find(const Label* p, const Label* q, Index length, Index* places) {
        const auto end = static_cast<std::size_t>(size_ + length + 1);
        if (paid_.size() < end) paid_.resize(end);
        double* paid = paid_.data() + size_;
        Index found = 0;
        const auto look = [&](Index t) {
            places[found] = t;
            paid[found] =
                costs_.costs[static_cast<std::size_t>(std::int32_t{p[t]} * costs_.labels + q[t])];
            found += paid[found] != 0.0;
        };
        constexpr Index kAtOnce = 64 / sizeof(Label);  // most of which are alike
        Index t = 0;
        for (; t + kAtOnce <= length; t += kAtOnce) {
            if (std::memcmp(p + t, q + t, kAtOnce * sizeof(Label)) == 0) continue;
            for (Index k = 0; k < kAtOnce; ++k) look(t + k);
        }
        for (; t < length; ++t) look(t);
        size_ += found;
        return found;
    }

    std::span<const double> counted(std::span<const double> weights) {
        for (std::size_t k = 0; k < weights.size(); ++k) paid_[k] *= weights[k];
        size_ = 0;
        return {paid_.data(), weights.size()};
    }

  private:
    const LabelCosts& costs_;
    Index size_ = 0;
    std::vector<double> paid_;  // of pairs whose weights are still to come
};

// What both ends of each pair of a row pay for a move, times its weight.
template <class Label>
void weigh_slopes(const LabelCosts& costs, const Label* x, const Label* p, Index away, Index length,
                  const double* weights, double* near, double* far) {
    const double* const table = costs.costs.data();
    const std::int32_t labels = costs.labels;
    for (Index t = 0; t < length; ++t) {
        const std::int32_t kept = std::int32_t{x[t]} * labels;
        const std::int32_t taken = std::int32_t{p[t]} * labels;
        const Label x_j = x[t + away];
        const Label p_j = p[t + away];
        const double keep_take = table[kept + p_j];
        const double take_keep = table[taken + x_j];
        const double keep_keep = table[kept + x_j];
        const double take_take = table[taken + p_j];
        near[t] = weights[t] * (0.5 * ((take_keep + take_take) - (keep_keep + keep_take)));
        far[t] = weights[t] * (0.5 * ((keep_take + take_take) - (keep_keep + take_keep)));
    }
}

}  // namespace

template <class Label>
ExactSum label_cost(const GridWeights& weights, const Label* labels, const LabelCosts& costs,
                    const Box& box) {
    return sum_apart(weights, labels, box, LabelsPaying<Label>(costs));
}

template <class Label>
void label_slopes(const GridWeights& weights, const Label* labels, const Label* proposal,
                  const LabelCosts& costs, double* out) {
    in_pieces(volume(weights.shape()),
              [&](Index low, Index high) { std::fill(out + low, out + high, 0.0); });
    const Point strides = row_major_strides(weights.shape());
    std::vector<double> row(kRun);
    std::vector<double> near(kRun);
    std::vector<double> far(kRun);
    Pause pause;
    for (std::size_t m = 0; m < weights.size(); ++m) {
        const Index away = dot(weights.offsets()[m], strides);
        for_each_run(weights.tails(m), [&](const Point& first, Index length) {
            pause(8 * length);
            const Index start = dot(first, strides);
            weights.row(m, first, length, row.data());
            weigh_slopes(costs, labels + start, proposal + start, away, length, row.data(),
                         near.data(), far.data());
            // Pair after pair: a site that ends one of them and begins another has its place in the
            // order of all sites, wherever a row is cut.
            double* const to = out + start;
            for (Index t = 0; t < length; ++t) {
                to[t] += near[t];
                to[t + away] += far[t];
            }
        });
    }
}

template <class Label>
void joint_labels(const Label* labels, const Label* proposal, const std::uint8_t* moving,
                  Index sites, std::int32_t count, std::uint8_t* joint) {
    in_pieces(sites, [&](Index low, Index high) {
        for (Index i = low; i < high; ++i) {
            if (moving[i] != 0) joint[std::int32_t{labels[i]} * count + proposal[i]] = 1;
        }
    });
}

#define DOPE_LABEL(Label)                                                                          \
    template ExactSum label_cost(const GridWeights&, const Label*, const LabelCosts&, const Box&); \
    template void label_slopes(const GridWeights&, const Label*, const Label*, const LabelCosts&,  \
                               double*);                                                           \
    template void joint_labels(const Label*, const Label*, const std::uint8_t*, Index,             \
                               std::int32_t, std::uint8_t*);
DOPE_LABEL(std::uint8_t)
DOPE_LABEL(std::uint16_t)
#undef DOPE_LABEL

}  // namespace dope
