// What a move of several labels does to pairs. Every site keeps its label x or takes another one
// that is proposed, p; a pair then weighs
//
//     w'(i, j) = w(i, j) * (V(x_i, p_j) + V(p_i, x_j) - V(x_i, x_j) - V(p_i, p_j)) / 2
//
// of the choice, and what is left is linear: u'(i) adds up, over the pairs of i,
//
//     w(i, j) * (V(p_i, x_j) + V(p_i, p_j) - V(x_i, x_j) - V(x_i, p_j)) / 2.
//
// Where p follows from x, as in an expansion or a swap, the factor of w is looked up in a table.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "view.h"

namespace dope {

// Which label each site has, a number below the number of labels.
using LabelView = std::variant<View<std::uint8_t>, View<std::uint16_t>>;

// A cost of every two labels, row by row. As labels are numbers below 2^16 and memory is finite,
// positions fit into 32 bits if there are no more than kMostLabels.
struct LabelCosts {
    static constexpr Index kMostLabels = 1 << 15;
    std::vector<double> costs;
    std::int32_t labels = 0;
};

// Sums of two costs that differ by less than this fraction of what they are made of are equal.
inline constexpr double kCostRounding = 0x1p-50;

class Fused {
  public:
    // Trusts its arguments: images of one type and shape, all labels below costs.labels. Without a
    // proposal, `costs` are the factors.
    Fused(LabelView labels, std::optional<LabelView> proposal, LabelCosts costs)
        : labels_(std::move(labels)), proposal_(std::move(proposal)), costs_(std::move(costs)) {}

    // Multiplies the weights of `length` pairs from `first` on along the last axis.
    void multiply(const Point& first, const Point& offset, Index length, double* weights) const;

    // The factors of the pairs whose sites p are first + places[k] along the last axis.
    void look_up(const Point& first, const Point& offset, std::span<const Index> places,
                 double* out) const;

  private:
    LabelView labels_;
    std::optional<LabelView> proposal_;
    LabelCosts costs_;
};

}  // namespace dope
