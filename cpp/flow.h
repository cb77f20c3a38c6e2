// The flows that Python sees: one class per topology, whatever the kernel and the width of the
// capacities, which are chosen at run time.
#pragma once

#include <atomic>
#include <memory>

#include "exact_sum.h"
#include "flow_types.h"
#include "grid_weights.h"

namespace dope {

// One end of a pair as the caller gives it.
using Vertex = std::int64_t;

// The ends of pairs, in two arrays or by turns in one.
class Ends {
  public:
    Ends(const Vertex* first, const Vertex* second) : first_(first), second_(second) {}
    // The first pair's ends, then the next one's.
    Ends(const Vertex* by_turns) : first_(by_turns), second_(by_turns), step_(2), behind_(1) {}

    Vertex first(std::size_t e) const { return first_[step_ * e]; }
    Vertex second(std::size_t e) const { return second_[step_ * e + behind_]; }

  private:
    const Vertex* first_;
    const Vertex* second_;
    std::size_t step_ = 1;
    std::size_t behind_ = 0;  // not added to the address, which is null where there are no pairs
};

// See MaxFlow. One thread at a time: another one is refused.
class Flow {
  public:
    virtual ~Flow() = default;

    virtual void minimize(const double* unary, const Poll& poll) = 0;
    virtual void change(const std::int64_t* sites, const double* unary, std::size_t count,
                        const Poll& poll) = 0;
    virtual void labels(bool largest, bool* out, const Poll& poll) = 0;
    virtual double value() const = 0;
    virtual ExactSum minimum() const = 0;
    virtual void check() = 0;
    virtual std::size_t bytes() const = 0;

  protected:
    // Held by every call.
    class Turn {
      public:
        explicit Turn(const Flow& flow) : busy_(flow.busy_) {
            if (busy_.exchange(true)) {
                throw std::runtime_error(
                    "this flow is at work in another thread: expected one thread at a time");
            }
        }
        ~Turn() { busy_ = false; }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

      private:
        std::atomic<bool>& busy_;
    };

  private:
    mutable std::atomic<bool> busy_{false};
};

class GridFlow : public Flow {
  public:
    virtual const Point& shape() const = 0;

    // As if new, for other weights on the same grid and kernel, in the memory it holds.
    virtual void refill(const GridWeights& weights, double scale, const Poll& poll) = 0;
};

class GraphFlow : public Flow {
  public:
    virtual std::int64_t sites() const = 0;
};

std::unique_ptr<GridFlow> grid_flow(const GridWeights& weights, double scale, int bits,
                                    const Poll& poll);
std::size_t grid_flow_bytes(const Point& shape, const std::vector<Point>& offsets, int bits);

std::unique_ptr<GraphFlow> graph_flow(std::int64_t sites, Ends ends, const double* weights,
                                      std::size_t pairs, double scale, int bits);
std::size_t graph_flow_bytes(std::int64_t sites, std::int64_t pairs, int bits);

}  // namespace dope
