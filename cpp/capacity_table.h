// The capacities of a picture whose pixels are whole numbers: few differences can occur between
// them, so every one's capacity is computed once and then looked up.
//
// The bits are those that GridWeights and round_weights() give.
#pragma once

#include <optional>

#include "grid_layout.h"
#include "grid_weights.h"

namespace dope {

class CapacityTable {
  public:
    using Number = std::int32_t;

    // For weights that are factor * exp(-beta |x_p - x_q|^2) and no more, between pixels that are
    // whole numbers, and capacities up to `most`. None where that is not so, or where the table
    // would be larger than the number of capacities to look up, `worth`.
    static std::optional<CapacityTable> of(const GridWeights& weights, const GridLayout& layout,
                                           double scale, std::int64_t most, Index worth);

    // How many planes of the first axis to open at a time.
    Index planes() const { return planes_; }
    // Reads the pixels that sites in the planes low to high have to do with.
    void open(Index low, Index high);

    // The capacities of `length` sites from a place on, up to kRun of them, site after site and arc
    // after arc. Idle arcs are left out.
    static constexpr Index kRun = 64;
    void look_up(Index place, Index length, Number* out) const;

  private:
    CapacityTable(const GridWeights& weights, const GridLayout& layout)
        : weights_(weights), layout_(layout) {}

    void compute(const std::vector<double>& factors, double scale);

    struct Way {
        Arc arc;
        Site step;
        std::size_t numbers;  // where its capacities begin
    };

    const GridWeights& weights_;
    const GridLayout& layout_;
    Number top_ = 0;               // pixels so far apart, or further, have capacity 0
    Number most_ = 0;              // as do those so far apart in one channel
    std::vector<Number> numbers_;  // capacities for differences 0 to top_, for each factor
    std::vector<Way> ways_;
    Index planes_ = 0;
    // The pixels, channel by channel, in the order of the places, with padding; and the first's.
    std::vector<Number> pixels_;
    Index channel_ = 0;
    Index origin_ = 0;
};

}  // namespace dope
