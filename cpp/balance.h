// Flow inside a tile of a grid that makes the sum of squares of its excesses small.
//
// With e_i the excess of site i before any flow, and |f_ij| <= w_ij what flows from i to j, what
// is left is z_i = e_i - sum_j f_ij + sum_j f_ji, and
//
//     min over f of sum_i z_i^2      is the dual of      min over x of sum_i (x_i - e_i)^2 + 2
//     sum_ij w_ij |x_i - x_j|,
//
// total variation with squares, where x = z at the best f: a flow that is maximal for every
// threshold of x at once. Found by projected gradients with momentum (Beck & Teboulle, IEEE TIP
// 2009): every flow goes down the slope z_i - z_j and back to its limit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dope {

// Places lie in a row, padded so that an arc from any of them leads by the same step to another:
// arcs to where there is no site have the limit 0.
class Balance {
  public:
    // `steps` are above 0.
    void begin(std::size_t places, const std::vector<std::size_t>& steps) {
        places_ = places;
        reach_ = *std::max_element(steps.begin(), steps.end());
        excess_.assign(places + reach_, 0.0F);
        left_.resize(places + reach_);
        arcs_.resize(steps.size());
        for (std::size_t m = 0; m < steps.size(); ++m) {
            Arcs& arcs = arcs_[m];
            arcs.step = steps[m];
            for (auto* numbers : {&arcs.limit, &arcs.flow, &arcs.ahead})
                numbers->assign(reach_ + places, 0.0F);
        }
    }
    float& excess(std::size_t p) { return excess_[p]; }
    std::size_t reach() const { return reach_; }
    // Arc m of place p carries this flow now, as the excesses there know.
    void let_flow(std::size_t m, std::size_t p, float flow, float limit) {
        Arcs& arcs = arcs_[m];
        arcs.flow[reach_ + p] = flow;
        arcs.limit[reach_ + p] = limit;
        excess_[p] += flow;
        excess_[p + arcs.step] -= flow;
    }
    float limit(std::size_t m, std::size_t p) const { return arcs_[m].limit[reach_ + p]; }
    float flow(std::size_t m, std::size_t p) const { return arcs_[m].flow[reach_ + p]; }

    // Goes on from the flow there is.
    void solve(int times);

  private:
    struct Arcs {
        std::size_t step;
        // `reach_` places of nothing come first, so that what flows to a place can be read there.
        std::vector<float> limit;
        std::vector<float> flow;
        std::vector<float> ahead;  // where the momentum has carried it
    };

    std::size_t places_ = 0;
    std::size_t reach_ = 0;
    std::vector<float> excess_;
    std::vector<float> left_;
    std::vector<Arcs> arcs_;
};

}  // namespace dope
