// Exact moves: all labels of a part of small tree-width at once, the others held as they are
// (Hamze and de Freitas 2004; Selby 2014). They leave minima that no flips leave.
//
// Sites are eliminated one after the other, always one with the fewest neighbors left. What is
// left to minimize over site v is a table over its neighbors N,
//
//     m(y_N) = min over y_v of ( price_v y_v + its pairs with N + earlier tables that hold v ),
//
// and N is a clique from then on. Where every site has more than `width` neighbors left, one of
// them is held: strips between held sites on a grid, trees where the width is 1. Backwards, every
// table tells the best label of its site.
#pragma once

#include <cstdint>
#include <vector>

#include "lots.h"
#include "spins.h"
#include "whole_pairs.h"

namespace dope {

class LowWidth {
  public:
    LowWidth(const WholePairs& pairs, const std::vector<std::int32_t>& unary);

    // Never raises the energy.
    void move(Spins& spins, int width, Lots& lots);
    static constexpr int kMostWidth = 16;

    // The same where no site has to be held: the labels are a minimum then. If some would have to
    // be, it finds out without tables and returns false.
    bool solve(Spins& spins, int width, Lots& lots);

    std::int64_t work() const { return work_; }

  private:
    struct Elimination {
        Site site;
        std::vector<Site> scope;
        std::vector<std::int64_t> table;    // of m, until a table that holds it is made
        std::vector<std::uint64_t> labels;  // of the site, a bit for each of the table's entries
        bool used;
    };

    void open(const Spins& spins, int width, Lots& lots);
    void hold(Site site, std::int8_t spin);
    void take_out(Site site);
    void eliminate(Site site, Lots& lots);
    void tell(Spins& spins);
    void add(const Elimination& earlier, Site site, const std::vector<Site>& scope);
    void queue(Site site);
    Site next(int width);
    Site crowded();
    void detach(Site site, Site from);

    const WholePairs* pairs_;
    const std::vector<std::int32_t>* unary_;
    std::vector<std::int64_t> price_;                // given the sites held
    std::vector<std::int8_t> spin_;                  // those held, then all
    std::vector<std::uint8_t> open_;                 // neither held nor eliminated
    std::vector<std::vector<Site>> around_;          // open neighbors
    std::vector<std::vector<std::int32_t>> tables_;  // unused eliminations that hold the site
    std::vector<Elimination> done_;
    std::size_t count_ = 0;                  // of done_ in use: what they own is used again
    std::vector<std::vector<Site>> queues_;  // by the number of neighbors, some out of date
    std::vector<Site> order_;
    std::size_t place_ = 0;
    std::vector<std::int64_t> zero_, one_;  // the table under construction, by the site's label
    std::vector<std::uint32_t> entry_;
    std::int64_t work_ = 0;
    Pause pause_;
};

}  // namespace dope
