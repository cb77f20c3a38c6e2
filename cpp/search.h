// Search for labels of low energy, for pairs of any sign: walks from the best labels so far, of
// which every connected part that gains is kept.
//
//     repeat
//       each of four walkers   copies the labels y, heats them up, to another temperature each,
//                              and cools them down; some go on by tabu search or exact moves
//       y <- y and what they found, crossed: each part where they differ for itself (Spins::cross)
//     until nothing was gained for as long as it took so far: y joins the best in the same way,
//     and a new epoch begins with y drawn at random
//
// A part that gains is kept whatever happens elsewhere, so large problems take hardly more sweeps
// than small ones. Whether a round ends early or late no walk depends on: with a limit of work,
// labels depend on the input and the seed alone, whatever the threads.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "flow_types.h"
#include "low_width.h"
#include "neighbors.h"
#include "spins.h"
#include "whole_pairs.h"

namespace dope {

class Search {
  public:
    explicit Search(const Neighbors& neighbors) : pairs_(neighbors) {}

    Index sites() const { return pairs_.sites(); }

    // Looked at between rounds.
    struct Limits {
        Index sweeps;    // work: so many visits per site, of itself or from a neighbor that flips
        double seconds;  // instead of sweeps, where it is finite
    };
    struct Done {
        Index rounds = 0, epochs = 0;
        std::int64_t work = 0;
        bool exact = false;  // the labels are a minimum, but for the rounding of costs
    };

    // Labels in whole units no worse than those given. After an Interrupted `labels` are the best
    // until then.
    Done run(const double* unary, std::uint8_t* labels, const Limits& limits, std::uint64_t seed,
             Index threads, const Poll& poll) const;

  private:
    WholePairs pairs_;
};

}  // namespace dope
