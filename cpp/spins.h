// Labels under search, and what every flip costs while they move:
//
//     s_i = 1 - 2 y_i,     cost_i = s_i (u_i + sum_j w_ij s_j)
//
// A flip of i turns cost_i round and takes 2 w_ij s_i s_j from cost_j. All numbers are whole.
#pragma once

#include <cstdint>
#include <vector>

#include "lots.h"
#include "pause.h"
#include "whole_pairs.h"

namespace dope {

class Spins {
  public:
    Spins(const WholePairs& pairs, const std::vector<std::int32_t>& unary);

    Site sites() const { return static_cast<Site>(spin_.size()); }
    const std::vector<std::int8_t>& spins() const { return spin_; }
    const std::vector<std::int32_t>& costs() const { return cost_; }
    std::int64_t energy() const { return energy_; }  // over that of all labels 0
    std::int64_t work() const { return work_; }      // visits of sites and neighbors so far

    void stand(const std::vector<std::int8_t>& spins);

    // Where another one of the same energy stands.
    void stand_with(const Spins& other) {
        spin_ = other.spin_;
        cost_ = other.cost_;
        energy_ = other.energy_;
        work_ += sites();
    }

    void flip(Site i) {
        const std::int32_t cost = cost_[i];
        const std::int32_t twice = 2 * spin_[i];
        energy_ += cost;
        cost_[i] = -cost;
        spin_[i] = static_cast<std::int8_t>(-spin_[i]);
        const auto row = pairs_->row(i);
        for (const auto& [step, weight] : row) {
            cost_[i + step] -= twice * weight * spin_[i + step];
        }
        work_ += static_cast<std::int64_t>(row.size());
    }

    // Sweeps while it cools from `hot` to `cold`: a flip that costs c is taken with probability
    // e^(-c / T). It ends when nothing moves any more but what moves for free.
    struct Cooling {
        double hot, cold;
        Index sweeps;
    };
    void anneal(const Cooling& cooling, Lots& lots);

    // Single flips, and flips of both ends of a pair, until none gains.
    void descend();

    // The flip that costs least, even uphill, but of no site that flipped not long ago, unless it
    // leads below all before; ends at the best labels on the way.
    void tabu(Index steps, Lots& lots);

    // Adopts from the others each connected part where they differ that raises nothing. The
    // energy is then no higher than any mix of the two by whole parts, theirs included.
    void cross(const std::vector<std::int8_t>& others);

  private:
    static constexpr Index kChunk = 32;

    void sweep(double temperature, Lots& lots, Index& moved);
    bool flip_pairs();

    const WholePairs* pairs_;
    const std::vector<std::int32_t>* unary_;
    std::vector<std::int8_t> spin_;
    std::vector<std::int32_t> cost_;
    std::int64_t energy_ = 0, work_ = 0;
    Pause pause_;
    // At hand, so that memory is asked for once.
    std::vector<std::uint8_t> marks_;
    std::vector<Site> part_;
    std::vector<Index> until_;
};

}  // namespace dope
