// The blocks that Python sees, whatever the kernel and the width of the capacities: see Blocks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "exact_sum.h"
#include "flow.h"

namespace dope {

// What stands between a block and agreement.
struct Survey {
    ExactSum gap;                // residuals of the arcs from its labels 1 to labels 0 elsewhere
    std::int64_t conflicts = 0;  // arcs
    std::int64_t labelled = 0;   // its sites that differ from a neighbor over a wall
};

// How much two groups of blocks, each named by its first block, disagree.
struct Dispute {
    std::int64_t one;
    std::int64_t other;
    double amount;  // what could flow over the conflicts
};

// Flow over a pair that a wall cuts, from one of the caller's sites to a later one.
struct WallFlow {
    std::int64_t first;
    std::int64_t second;
    std::int64_t amount;
};

// How many walls lie between a site and a sink, -1 where it reaches none; and whether it is on the
// sources' side of its block (1), the sinks' (-1), or free (0).
struct Distance {
    std::int64_t site;
    std::int32_t walls;
    std::int32_t side = 0;
};

class BlockFlow {
  public:
    virtual ~BlockFlow() = default;

    virtual std::size_t blocks() const = 0;
    virtual std::size_t sites(std::size_t k) const = 0;
    virtual std::size_t group(std::size_t k) const = 0;
    virtual std::vector<std::size_t> members(std::size_t g) const = 0;
    virtual std::vector<std::size_t> neighbors(std::size_t k) const = 0;

    // Building, by several threads: part by part, then finish().
    virtual std::size_t parts() const = 0;
    virtual void fill(std::size_t part, const Poll& poll) = 0;
    virtual void finish() = 0;

    virtual void wall_in(std::size_t k) = 0;
    virtual void price(std::size_t k, const double* unary, const double* before) = 0;
    virtual void balance(std::size_t k, bool shifted) = 0;
    virtual void solve(std::size_t g, const Poll& poll) = 0;
    virtual void labels(std::size_t k, bool of_all, bool* out) const = 0;
    virtual ExactSum bound(std::size_t k) const = 0;
    virtual std::vector<WallFlow> flows(std::size_t k) const = 0;
    virtual Survey survey(std::size_t k) = 0;
    virtual void bracket(std::size_t k, bool outside, bool* out, const Poll& poll) = 0;
    virtual void discharge(std::size_t g, const Poll& poll) = 0;
    virtual void check(std::size_t g) = 0;
    virtual void part(std::size_t k) = 0;
    virtual void regroup() = 0;

    virtual bool certify() = 0;
    virtual ExactSum push() = 0;
    virtual std::vector<std::size_t> changed() const = 0;
    virtual std::vector<Dispute> disputes() const = 0;
    virtual void merge(std::size_t g, std::size_t h) = 0;
    virtual void measure() = 0;
    virtual void deliver() = 0;
    virtual std::vector<WallFlow> pushed() const = 0;
    virtual void impose(const std::vector<WallFlow>& flows) = 0;
    virtual std::size_t bytes() const = 0;

    // Of a block whose neighbors live elsewhere.
    virtual std::vector<char> save(std::size_t k) const = 0;
    virtual void load(std::size_t k, const char* saved, std::size_t size) = 0;
    virtual std::vector<std::span<std::byte>> stores() = 0;
    virtual void hold(std::size_t k, const std::uint8_t* held) = 0;
    virtual void carry(std::size_t k, const std::vector<WallFlow>& flows) = 0;
    virtual std::vector<WallFlow> wall_flows(std::size_t k) const = 0;
    virtual void surround(const std::vector<Distance>& around) = 0;
    virtual void measure_from(std::size_t k, std::int32_t most) = 0;
    virtual std::vector<Distance> border(std::size_t k) const = 0;
    virtual std::vector<std::int64_t> reach(std::size_t k,
                                            const std::vector<std::int64_t>& from) = 0;
};

// `cuts` are, for every axis, the rising places where it is cut. The weights are read by fill().
std::unique_ptr<BlockFlow> block_grid_flow(const GridWeights& weights, double scale, int bits,
                                           const std::vector<Point>& cuts);
// `members` says for every site which of `number` blocks it belongs to.
std::unique_ptr<BlockFlow> block_graph_flow(std::int64_t sites, Ends ends, const double* weights,
                                            std::size_t pairs, double scale, int bits,
                                            std::vector<std::int32_t> members, std::size_t number);

}  // namespace dope
