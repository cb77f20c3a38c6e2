#include "fused.h"

#include <cmath>

#include "wide_vectors.h"

namespace dope {

namespace {

// (V(x_i, p_j) + V(p_i, x_j) - V(x_i, x_j) - V(p_i, p_j)) / 2. Each of two sums is rounded by
// itself, so that where one is not less than the other it is not after rounding either; what is
// left within rounding, of costs that are rounded numbers themselves, is 0.
inline double half_curl(double keep_take, double take_keep, double keep_keep, double take_take) {
    const double curl = (keep_take + take_keep) - (keep_keep + take_take);
    const double size =
        ((std::abs(keep_take) + std::abs(take_keep)) + std::abs(keep_keep)) + std::abs(take_take);
    return std::abs(curl) <= kCostRounding * size ? 0.0 : 0.5 * curl;
}

template <class Label>
inline void multiply_by_table(const double* table, std::int32_t labels, const Label* p,
                              const Label* q, Index length, double* out) {
    for (Index t = 0; t < length; ++t) out[t] *= table[std::int32_t{p[t]} * labels + q[t]];
}

// Attributes that choose a processor do not reach templates.
DOPE_WIDE_VECTORS void multiply_row(const double* table, std::int32_t labels, const std::uint8_t* p,
                                    const std::uint8_t* q, Index length, double* out) {
    multiply_by_table(table, labels, p, q, length, out);
}
DOPE_WIDE_VECTORS void multiply_row(const double* table, std::int32_t labels,
                                    const std::uint16_t* p, const std::uint16_t* q, Index length,
                                    double* out) {
    multiply_by_table(table, labels, p, q, length, out);
}

// The factor of the pair of one site of a row and its neighbor.
template <class Label>
class Row {
  public:
    Row(const View<Label>& labels, const std::optional<LabelView>& proposal,
        const LabelCosts& costs, const Point& first, const Point& offset)
        : table_(costs.costs.data()),
          count_(costs.labels),
          step_(labels.strides.back()),
          x_i_(labels.at(first)),
          x_j_(x_i_ + labels.distance(offset)) {
        if (!proposal) return;
        const auto& taken = std::get<View<Label>>(*proposal);
        take_step_ = taken.strides.back();
        p_i_ = taken.at(first);
        p_j_ = p_i_ + taken.distance(offset);
    }

    bool by_table() const { return p_i_ == nullptr; }
    bool packed() const { return step_ == 1; }
    void multiply_packed(Index length, double* out) const {
        multiply_row(table_, count_, x_i_, x_j_, length, out);
    }

    double from_table(Index t) const { return cost(x_i_[t * step_], x_j_[t * step_]); }
    double from_costs(Index t) const {
        const Label x_i = x_i_[t * step_];
        const Label x_j = x_j_[t * step_];
        const Label p_i = p_i_[t * take_step_];
        const Label p_j = p_j_[t * take_step_];
        return half_curl(cost(x_i, p_j), cost(p_i, x_j), cost(x_i, x_j), cost(p_i, p_j));
    }

  private:
    double cost(Label a, Label b) const { return table_[std::int32_t{a} * count_ + b]; }

    const double* table_;
    std::int32_t count_;
    Index step_;
    Index take_step_ = 0;
    const Label* x_i_;
    const Label* x_j_;
    const Label* p_i_ = nullptr;
    const Label* p_j_ = nullptr;
};

template <class Visit>
void with_row(const LabelView& labels, const std::optional<LabelView>& proposal,
              const LabelCosts& costs, const Point& first, const Point& offset, Visit&& visit) {
    std::visit([&](const auto& kept) { visit(Row(kept, proposal, costs, first, offset)); }, labels);
}

}  // namespace

void Fused::multiply(const Point& first, const Point& offset, Index length, double* weights) const {
    with_row(labels_, proposal_, costs_, first, offset, [&](const auto& row) {
        if (row.by_table() && row.packed()) return row.multiply_packed(length, weights);
        if (row.by_table()) {
            for (Index t = 0; t < length; ++t) weights[t] *= row.from_table(t);
        } else {
            for (Index t = 0; t < length; ++t) weights[t] *= row.from_costs(t);
        }
    });
}

void Fused::look_up(const Point& first, const Point& offset, std::span<const Index> places,
                    double* out) const {
    with_row(labels_, proposal_, costs_, first, offset, [&](const auto& row) {
        if (row.by_table()) {
            for (const Index t : places) *out++ = row.from_table(t);
        } else {
            for (const Index t : places) *out++ = row.from_costs(t);
        }
    });
}

}  // namespace dope
