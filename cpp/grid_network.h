// A grid as a network: neighbors by arithmetic, residual capacities from weights.
//
// Store says how sites are kept: FewArcs or ManyArcs.
#pragma once

#include <cmath>

#include "capacities.h"
#include "function_ref.h"
#include "grid_layout.h"
#include "grid_weights.h"
#include "tile.h"

namespace dope {

template <class Store>
class GridNetwork : public Store {
  public:
    using typename Store::Capacity;
    using typename Store::Excess;

    // A part of the grid.
    using Part = Box;

    // Copies share the sites.
    GridNetwork(const Point& shape, const std::vector<Point>& offsets)
        : GridNetwork(GridLayout(shape, offsets)) {}

    static std::size_t bytes_needed(const GridLayout& layout) {
        return Store::bytes_needed(layout);
    }
    std::size_t bytes() const { return bytes_needed(layout_); }
    const GridLayout& layout() const { return layout_; }

    // New capacities, no flow, no forests. Throws Interrupted where `poll` says so.
    void fill(const GridWeights& weights, double scale, const Poll& poll) {
        set_greatest_sum(fill_planes(weights, scale, 0, layout_.shape[0], poll));
    }
    // The same in parts, by several threads: the planes low to high of the first axis. Returns the
    // greatest sum of one site's capacities among them: the greatest of all has to be set.
    Excess fill_planes(const GridWeights& weights, double scale, Index low, Index high,
                       const Poll& poll);
    void set_greatest_sum(Excess sum) { greatest_sum_ = sum; }

    Excess greatest_sum() const { return greatest_sum_; }  // of one site's capacities

    Part everything() const { return whole(layout_.shape); }
    std::size_t sites_of(const Part& part) const { return static_cast<std::size_t>(part.sites()); }
    // visit(place of the first site, length) for every row of a part.
    template <class Visit>
    void for_each_row(const Part& part, Visit&& visit) const {
        for_each_run(part, [&](const Point& first, Index length) {
            visit(static_cast<Site>(layout_.place(first)), static_cast<Site>(length));
        });
    }
    // Where the caller's i-th site lies.
    Site place(std::size_t i) const;

    // A grid of tiles (see grid_half.h).
    class Half;

    // --- Blocks: the boxes between cuts, in row-major order --------------------------------------

    // `cuts` are, for every axis, the rising places where it is cut.
    void divide(const std::vector<Point>& cuts) {
        cuts_ = cuts;
        reach_.assign(layout_.shape.size(), 0);
        arc_steps_.assign(layout_.steps.size(), Point(layout_.shape.size(), 0));
        for (const auto& use : layout_.used) {
            arc_steps_[static_cast<std::size_t>(use.arc)] = use.step;
            Point& back = arc_steps_[static_cast<std::size_t>(layout_.opposite(use.arc))];
            back = use.step;
            for (Index& axis : back) axis = -axis;
            for (std::size_t a = 0; a < reach_.size(); ++a) {
                reach_[a] = std::max(reach_[a], std::abs(use.step[a]));
            }
        }
    }
    std::size_t blocks() const {
        std::size_t number = 1;
        for (const Point& axis : cuts_) number *= axis.size() + 1;
        return number;
    }
    Part block(std::size_t k) const {
        Box box = whole(layout_.shape);
        for (std::size_t a = cuts_.size(); a-- > 0;) {
            const Point& axis = cuts_[a];
            const std::size_t piece = k % (axis.size() + 1);
            k /= axis.size() + 1;
            if (piece > 0) box.low[a] = axis[piece - 1];
            if (piece < axis.size()) box.high[a] = axis[piece];
        }
        return box;
    }
    std::size_t block_of(Site v) const {
        Index rest = v - layout_.first;
        std::size_t k = 0;
        for (std::size_t a = 0; a < cuts_.size(); ++a) {
            const Index p = rest / layout_.strides[a];
            rest -= p * layout_.strides[a];
            const Point& axis = cuts_[a];
            k = k * (axis.size() + 1) +
                static_cast<std::size_t>(std::upper_bound(axis.begin(), axis.end(), p) -
                                         axis.begin());
        }
        return k;
    }
    // The blocks that a block may have pairs with.
    std::vector<std::size_t> neighbors(std::size_t k) const {
        const Box here = block(k);
        std::vector<std::size_t> found;
        for (std::size_t other = 0; other < blocks(); ++other) {
            const Box there = block(other);
            bool near = other != k;
            for (std::size_t a = 0; a < reach_.size(); ++a) {
                near &= there.low[a] < here.high[a] + reach_[a];
                near &= here.low[a] < there.high[a] + reach_[a];
            }
            if (near) found.push_back(other);
        }
        return found;
    }
    // Where a site stands in the caller's arrays.
    Index callers(Site v) const {
        Index rest = v - layout_.first;
        Index i = 0;
        for (std::size_t a = 0; a < layout_.shape.size(); ++a) {
            const Index p = rest / layout_.strides[a];
            rest -= p * layout_.strides[a];
            i = i * layout_.shape[a] + p;
        }
        return i;
    }

    // visit(site, arc) for all arcs from sites of a block, for which wanted(site), to other blocks.
    void for_each_crossing(std::size_t k, FunctionRef<bool(Site)> wanted,
                           FunctionRef<void(Site, Arc)> visit) const {
        const Box box = block(k);
        const std::size_t last = box.low.size() - 1;
        const Index length = box.high[last] - box.low[last];
        struct Way {
            Arc arc;
            Index step;  // along the row
        };
        std::vector<Way> leaving;  // to another row, which is another block's
        std::vector<Way> staying;  // in a row of this block, up to its ends
        Index reach = 0;           // of those
        bool inner = false;        // whether they are those of a row far from all others' rows
        const auto is_inner = [&](const Point& first) {
            for (std::size_t a = 0; a < last; ++a) {
                if (first[a] < box.low[a] + reach_[a] || first[a] >= box.high[a] - reach_[a]) {
                    return false;
                }
            }
            return true;
        };
        for_each_run(
            box,
            [&](const Point& first, Index) {
                const bool was_inner = std::exchange(inner, is_inner(first));
                const bool known = was_inner && inner;
                if (!known) {
                    leaving.clear();
                    staying.clear();
                    reach = 0;
                }
                for (std::size_t m = 0; m < arc_steps_.size() && !known; ++m) {
                    const Point& step = arc_steps_[m];
                    bool inside = true;
                    bool exists = true;
                    for (std::size_t a = 0; a < last; ++a) {
                        const Index there = first[a] + step[a];
                        inside &= box.low[a] <= there && there < box.high[a];
                        exists &= 0 <= there && there < layout_.shape[a];
                    }
                    const Way way{static_cast<Arc>(m), step[last]};
                    if (inside && way.step != 0) {
                        staying.push_back(way);
                        reach = std::max(reach, std::abs(way.step));
                    }
                    if (!inside && exists) leaving.push_back(way);
                }
                // Nothing crosses the border of the grid.
                const Index before = box.low[last] > 0 ? reach : 0;
                const Index behind = box.high[last] < layout_.shape[last] ? reach : 0;
                auto v = static_cast<Site>(layout_.place(first));
                for (Index t = 0; t < length; ++t, ++v) {
                    const bool middle = t >= before && t < length - behind;
                    if (middle && leaving.empty()) {
                        const Index skip = length - behind - t - 1;
                        t += skip;
                        v += static_cast<Site>(skip);
                        continue;
                    }
                    if (!wanted(v)) continue;
                    const Index x = first[last] + t;
                    for (const Way way : leaving) {
                        const Index there = x + way.step;
                        if (0 <= there && there < layout_.shape[last]) visit(v, way.arc);
                    }
                    if (middle) continue;
                    for (const Way way : staying) {
                        const Index there = x + way.step;
                        const bool inside = box.low[last] <= there && there < box.high[last];
                        if (!inside && 0 <= there && there < layout_.shape[last]) visit(v, way.arc);
                    }
                }
            },
            length);
    }

    // visit(tile) for tiles that cover a block; `shifted` ones have their borders inside the
    // others.
    template <class Visit>
    void for_each_tile(std::size_t k, bool shifted, Visit&& visit) const {
        constexpr Index kSites = 1 << 13;  // which lie in a cache with their arcs
        const Box box = block(k);
        const std::size_t axes = box.low.size();
        const auto side = std::max(
            Index{4}, static_cast<Index>(std::pow(kSites, 1.0 / static_cast<double>(axes))));
        Box numbers{Point(axes, 0), Point(axes)};  // of tiles, along every axis
        const Index first = shifted ? side / 2 : side;
        for (std::size_t a = 0; a < axes; ++a) {
            const Index rest = std::max(Index{0}, box.high[a] - box.low[a] - first);
            numbers.high[a] = 1 + (rest + side - 1) / side;
        }
        for_each_run(
            numbers,
            [&](const Point& number, Index) {
                Box part = box;
                for (std::size_t a = 0; a < axes; ++a) {
                    const Index high = box.low[a] + first + number[a] * side;
                    part.low[a] = number[a] == 0 ? box.low[a] : high - side;
                    part.high[a] = std::min(box.high[a], high);
                }
                visit(tile(part));
            },
            1);
    }

  private:
    // The sites of a box, padded like the grid.
    Tile tile(const Box& box) const {
        const std::size_t axes = box.low.size();
        Point extents(axes);
        for (std::size_t a = 0; a < axes; ++a) extents[a] = box.high[a] - box.low[a] + reach_[a];
        const Point strides = row_major_strides(extents);
        Tile tile;
        tile.places = static_cast<std::size_t>(volume(extents));
        for (std::size_t m = arc_steps_.size() / 2; m < arc_steps_.size(); ++m) {
            if (layout_.steps[m] == 0) continue;  // an idle arc
            tile.arcs.push_back(static_cast<Arc>(m));
            tile.steps.push_back(static_cast<std::size_t>(dot(arc_steps_[m], strides)));
        }
        for_each_run(
            box,
            [&](const Point& first, Index length) {
                Index place = 0;
                for (std::size_t a = 0; a < axes; ++a)
                    place += (first[a] - box.low[a]) * strides[a];
                tile.rows.push_back({static_cast<Site>(layout_.place(first)),
                                     static_cast<std::size_t>(place), static_cast<Site>(length)});
            },
            box.high[axes - 1] - box.low[axes - 1]);
        return tile;
    }

    explicit GridNetwork(GridLayout layout)
        : Store(layout), layout_(std::move(layout)) {}  // which Store may have changed

    class Filler;
    class LookUp;
    // Of a site's capacities. Where 32 bits hold the sum of any number of them, half as wide.
    using Sum = std::conditional_t<sizeof(Capacity) == 2, std::int32_t, std::int64_t>;

    GridLayout layout_;
    Excess greatest_sum_ = 0;
    std::vector<Point> cuts_;
    std::vector<Point> arc_steps_;  // per arc, where it leads
    Point reach_;                   // how far, along every axis
};

}  // namespace dope
