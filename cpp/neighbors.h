// Every site's neighbors, with the weights of their pairs at hand: for algorithms that go from site
// to site. Weights may have any sign. The two classes differ in memory only: a grid keeps a weight
// per pair, or one for all pairs of an offset where they are equal; a graph keeps rows.
//
// What an algorithm keeps per pair it keeps in an array of slots() entries: every pair has a slot
// of its own, the same seen from either end. A grid has more slots than pairs.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "grid_weights.h"

namespace dope {

class GridNeighbors {
  public:
    explicit GridNeighbors(const GridWeights& weights);

    Index sites() const { return sites_; }
    Index slots() const { return sites_ * static_cast<Index>(offsets_.size()); }

    // Sites lie line by line along the last axis. The pairs of offset m join line r at place k with
    // line r + line_steps()[m].lines at place k + line_steps()[m].places; `lines` is 0 or more.
    struct LineStep {
        Index lines, places;
    };
    Index line_length() const { return shape_.back(); }
    const std::vector<LineStep>& line_steps() const { return line_steps_; }

    // see(neighbor, weight) for every neighbor of the site, always in the same order.
    template <class See>
    void visit(Index site, See&& see) const {
        visit_slots(site, [&](Index neighbor, double weight, Index) { see(neighbor, weight); });
    }

    // The same with the pair's slot.
    template <class See>
    void visit_slots(Index site, See&& see) const {
        std::array<Index, kMostAxes> at;
        bool inner = true;
        Index rest = site;
        for (std::size_t a = 0; a < shape_.size(); ++a) {
            at[a] = rest / strides_[a];
            rest -= at[a] * strides_[a];
            inner = inner && at[a] >= reach_[a] && at[a] + reach_[a] < shape_[a];
        }
        Index slot = site;  // of the pair that begins here
        for (const Offset& offset : offsets_) {
            if (inner || inside(at, offset.step, 1)) {
                see(site + offset.distance, offset.weights[site * offset.stride], slot);
            }
            if (inner || inside(at, offset.step, -1)) {
                const Index tail = site - offset.distance;
                see(tail, offset.weights[tail * offset.stride], slot - offset.distance);
            }
            slot += sites_;
        }
    }

  private:
    static constexpr std::size_t kMostAxes = 64;  // NumPy has no more

    struct Offset {
        Point step;
        Index distance;               // between the two ends, in sites
        std::vector<double> weights;  // by the pair's first end, or one for all
        Index stride;                 // 1, or 0 for one weight
    };

    bool inside(const std::array<Index, kMostAxes>& at, const Point& step, Index sign) const {
        for (std::size_t a = 0; a < shape_.size(); ++a) {
            const Index there = at[a] + sign * step[a];
            if (there < 0 || there >= shape_[a]) return false;
        }
        return true;
    }

    Point shape_, strides_, reach_;
    Index sites_;
    std::vector<Offset> offsets_;
    std::vector<LineStep> line_steps_;
};

class GraphNeighbors {
  public:
    // `ends` holds two sites per pair, each below `sites`.
    GraphNeighbors(Index sites, const std::int64_t* ends, const double* weights, Index pairs);

    Index sites() const { return static_cast<Index>(start_.size()) - 1; }
    Index slots() const { return static_cast<Index>(rows_.size()) / 2; }

    // All of them are one line.
    Index line_length() const { return sites(); }
    std::vector<GridNeighbors::LineStep> line_steps() const { return {}; }

    template <class See>
    void visit(Index site, See&& see) const {
        visit_slots(site, [&](Index neighbor, double weight, Index) { see(neighbor, weight); });
    }

    template <class See>
    void visit_slots(Index site, See&& see) const {
        for (Index k = start_[site], end = start_[site + 1]; k < end; ++k) {
            see(rows_[k].neighbor, rows_[k].weight, slots_[k]);
        }
    }

  private:
    struct Entry {
        Index neighbor;
        double weight;
    };
    std::vector<Index> start_;
    std::vector<Entry> rows_;
    std::vector<Index> slots_;  // beside the rows, so that whoever needs none does not read them
};

// Either of them, shared by all that go from neighbor to neighbor.
class Neighbors {
  public:
    explicit Neighbors(const GridWeights& weights)
        : kind_(std::make_shared<const GridNeighbors>(weights)) {}
    Neighbors(Index sites, const std::int64_t* ends, const double* weights, Index pairs)
        : kind_(std::make_shared<const GraphNeighbors>(sites, ends, weights, pairs)) {}

    Index sites() const {
        return std::visit([](const auto& kind) { return kind->sites(); }, kind_);
    }

    // How many pairs a graph has; none for a grid.
    std::optional<Index> graph_pairs() const {
        const auto* graph = std::get_if<std::shared_ptr<const GraphNeighbors>>(&kind_);
        return graph ? std::optional((*graph)->slots()) : std::nullopt;
    }

    // What `Worker<Kind>` does, over this kind of neighbors; made of them and what else it takes.
    template <class Work, template <class> class Worker, class... More>
    std::unique_ptr<Work> at_work(const More&... more) const {
        return std::visit(
            [&]<class Kind>(const std::shared_ptr<const Kind>& kind) -> std::unique_ptr<Work> {
                return std::make_unique<Worker<Kind>>(kind, more...);
            },
            kind_);
    }

    // read(kind) of the one that it is.
    template <class Read>
    void read(Read&& read) const {
        std::visit([&](const auto& kind) { read(*kind); }, kind_);
    }

  private:
    std::variant<std::shared_ptr<const GridNeighbors>, std::shared_ptr<const GraphNeighbors>> kind_;
};

}  // namespace dope
