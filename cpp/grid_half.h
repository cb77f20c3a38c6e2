// A grid of half the size along every axis, on which flow finds its way over long distances.
//
// Sites are taken together in twos along every axis: 2^d of them are a tile. A tile has the excess
// of its sites, and an arc between two tiles holds what is open between their sites. A maximum flow
// on tiles is cheap: there are fewer of them, ways are half as long, and what many sites have to
// send goes the same way at once. What moves from tile to tile is spread over the arcs between
// their sites, in proportion to what these hold. Inside a tile nothing moves, so that some of its
// sites are left with too much and others with too little; but these are near each other, and a
// search evens them out on short ways.
//
// A search can go on from any flow that the residual capacities allow, so nothing of this has to be
// exact: where a sum would be too large for its type, it is cut off.
#pragma once

#include "grid_network.h"
#include "matches.h"
#include "shared_array.h"

namespace dope {

template <class Store>
class GridNetwork<Store>::Half {
  public:
    // Sums of capacities take more room than each.
    using Network = GridNetwork<typename Store::Wider>;
    using Wide = typename Network::Capacity;
    using WideExcess = typename Network::Excess;

    // Whether the store has room for the arcs of a tile, which may be more than those of a site.
    static bool fits(const GridNetwork& fine, const Part& part) {
        return Store::Wider::suits(GridLayout(halved(extents(part)), halved_offsets(fine.layout_)));
    }

    Half(const GridNetwork& fine, const Part& part)
        : fine_(fine),
          low_(part.low),
          shape_(extents(part)),
          network_(halved(shape_), halved_offsets(fine.layout_)),
          excess_(static_cast<std::size_t>(network_.sites())),
          most_(std::min(Width<Wide>::kMostCapacity,
                         Width<Wide>::kMostSum / std::max<Arc>(1, network_.degree(0)))) {
        network_.free_all(0, network_.sites());
        note_members();
        note_outlets();
    }

    // Both are shared with whoever searches.
    const Network& network() const { return network_; }
    const SharedArray<WideExcess>& excess() const { return excess_; }

    // Adds up what the sites have, and what is open between them. Calls pause(sites) now and then.
    template <class PauseFor>
    void gather(const SharedArray<Excess>& excess, PauseFor&& pause) {
        for_each_tile([&](Site tile, Site first, unsigned there) {
            pause(static_cast<Index>(members_.size()));
            std::int64_t sum = 0;
            for_each_member(first, there, [&](Site v, std::size_t member) {
                sum = cut_off(sum + cut_off(excess[static_cast<std::size_t>(v)]));
                for_each_outlet(v, member, [&](Arc m, Arc out) {
                    Wide& open = network_.residuals(tile)[out];
                    open = static_cast<Wide>(
                        std::min<std::int64_t>(most_, std::int64_t{open} + fine_.residual(v, m)));
                });
            });
            excess_[static_cast<std::size_t>(tile)] = static_cast<WideExcess>(sum);
        });
        for_each_tile([&](Site tile, Site, unsigned) {
            for (const Arc out : outward_) network_.unshut(tile, out);
        });
    }

    // Lets the sites of `fine` send each other what the tiles have sent since gather().
    template <class PauseFor>
    void spread(GridNetwork& fine, const SharedArray<Excess>& excess, PauseFor&& pause) const {
        std::vector<Outlet> outlets;
        std::vector<Sent> sent(static_cast<std::size_t>(network_.degree(0)));
        for_each_tile([&](Site tile, Site first, unsigned there) {
            pause(static_cast<Index>(members_.size()));
            outlets.clear();
            std::fill(sent.begin(), sent.end(), Sent());
            for_each_member(first, there, [&](Site v, std::size_t member) {
                for_each_outlet(v, member, [&](Arc m, Arc out) {
                    outlets.push_back({v, m, out});
                    sent[static_cast<std::size_t>(out)].open += fine_.residual(v, m);
                });
            });
            for (const Arc out : outward_) {
                Sent& over = sent[static_cast<std::size_t>(out)];
                over.amount = std::min(most_, over.open) - network_.residual(tile, out);
            }
            for (const Outlet& outlet : outlets) {
                Sent& over = sent[static_cast<std::size_t>(outlet.out)];
                const auto amount =
                    static_cast<Excess>(over.take(fine.residual(outlet.site, outlet.arc)));
                if (amount == 0) continue;
                const Site u = fine.head(outlet.site, outlet.arc);
                fine.push(outlet.site, outlet.arc, u, amount);
                excess[static_cast<std::size_t>(outlet.site)] -= amount;
                excess[static_cast<std::size_t>(u)] += amount;
            }
        });
    }

  private:
    struct Outlet {
        Site site;
        Arc arc;
        Arc out;  // of its tile
    };

    // What is to be sent over one arc of a tile, and what is open, but for the arcs that had their
    // share.
    struct Sent {
        std::int64_t amount = 0;
        std::int64_t open = 0;

        std::int64_t take(std::int64_t residual) {
            if (amount <= 0) return 0;
            const double part = static_cast<double>(residual) / static_cast<double>(open);
            const auto share = static_cast<std::int64_t>(static_cast<double>(amount) * part);
            open -= residual;
            // What the others cannot hold has to be sent here.
            const std::int64_t taken = std::clamp(share, std::max<std::int64_t>(0, amount - open),
                                                  std::min(amount, residual));
            amount -= taken;
            return taken;
        }
    };

    static Point extents(const Part& part) {
        Point shape = part.high;
        for (std::size_t a = 0; a < shape.size(); ++a) shape[a] -= part.low[a];
        return shape;
    }
    static Point halved(Point shape) {
        for (Index& extent : shape) extent = (extent + 1) / 2;
        return shape;
    }

    // Where the tile lies that an offset leads to from a site in a tile: its coordinates there are
    // bits of `member`.
    static Point halved(const Point& offset, std::size_t member) {
        Point tile = offset;
        for (std::size_t a = 0; a < offset.size(); ++a) {
            const Index there = offset[a] + static_cast<Index>(member >> a & 1U);
            tile[a] = there >> 1;  // rounded down, below 0 too
        }
        return tile;
    }
    static std::vector<Point> halved_offsets(const GridLayout& layout) {
        const Point nowhere(layout.shape.size(), 0);
        std::vector<Point> offsets;
        for (const auto& use : layout.used) {
            for (std::size_t member = 0; member < std::size_t{1} << nowhere.size(); ++member) {
                Point tile = halved(use.step, member);
                if (tile < nowhere) {
                    for (Index& axis : tile) axis = -axis;
                }
                if (tile != nowhere) offsets.push_back(tile);
            }
        }
        std::sort(offsets.begin(), offsets.end());
        offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
        return offsets;
    }

    void note_members() {
        for (std::size_t member = 0; member < std::size_t{1} << shape_.size(); ++member) {
            Index step = 0;
            for (std::size_t a = 0; a < shape_.size(); ++a) {
                if (member >> a & 1U) step += fine_.layout_.strides[a];
            }
            members_.push_back(static_cast<Site>(step));
        }
    }

    void note_outlets() {
        const GridLayout& layout = fine_.layout_;
        arcs_ = layout.steps.size();
        outlet_.assign(members_.size() * arcs_, kInside);
        std::vector<bool> leads(static_cast<std::size_t>(network_.degree(0)), false);
        for (const auto& use : layout.used) {
            Point back = use.step;
            for (Index& axis : back) axis = -axis;
            for (std::size_t member = 0; member < members_.size(); ++member) {
                outlet_[member * arcs_ + static_cast<std::size_t>(use.arc)] =
                    arc_of(halved(use.step, member));
                outlet_[member * arcs_ + static_cast<std::size_t>(layout.opposite(use.arc))] =
                    arc_of(halved(back, member));
            }
        }
        for (const Arc out : outlet_) {
            if (out != kInside) leads[static_cast<std::size_t>(out)] = true;
        }
        for (std::size_t out = 0; out < leads.size(); ++out) {
            if (leads[out]) outward_.push_back(static_cast<Arc>(out));
        }
    }

    // The arc of a tile that leads there; kInside also where the grid of tiles is too small for it.
    Arc arc_of(const Point& step) const {
        Point back = step;
        for (Index& axis : back) axis = -axis;
        for (const auto& use : network_.layout().used) {
            if (use.step == step) return use.arc;
            if (use.step == back) return network_.layout().opposite(use.arc);
        }
        return kInside;
    }

    static std::int64_t cut_off(std::int64_t excess) {
        constexpr std::int64_t kMost = Width<Wide>::kMostSum;
        return std::clamp(excess, -kMost, kMost);
    }

    // visit(tile, place of its first site, the axes along which it has a second one, as bits)
    template <class Visit>
    void for_each_tile(Visit&& visit) const {
        const std::size_t last = shape_.size() - 1;
        for_each_run(whole(network_.layout().shape), [&](const Point& first, Index length) {
            auto tile = static_cast<Site>(network_.layout().place(first));
            Point site = low_;
            unsigned there = 0;
            for (std::size_t a = 0; a < site.size(); ++a) {
                site[a] += 2 * first[a];
                if (2 * first[a] + 1 < shape_[a]) there |= 1U << a;
            }
            auto v = static_cast<Site>(fine_.layout_.place(site));
            for (Index t = 0; t < length; ++t, ++tile, v += 2) {
                if (2 * (first[last] + t) + 1 >= shape_[last]) there &= ~(1U << last);
                visit(tile, v, there);
            }
        });
    }
    template <class Visit>
    void for_each_member(Site first, unsigned there, Visit&& visit) const {
        for (std::size_t member = 0; member < members_.size(); ++member) {
            if ((member & ~there) == 0) visit(first + members_[member], member);
        }
    }
    // visit(arc, arc of the tile) for the open arcs of a member that lead to other tiles.
    template <class Visit>
    void for_each_outlet(Site v, std::size_t member, Visit&& visit) const {
        fine_.template for_each_open<true>(v, 0, Anywhere(), [&](Arc m) {
            const Arc out = outlet_[member * arcs_ + static_cast<std::size_t>(m)];
            if (out != kInside) visit(m, out);
            return false;
        });
    }

    static constexpr Arc kInside = -1;

    const GridNetwork& fine_;
    Point low_;    // of the part
    Point shape_;  // of the part
    Network network_;
    SharedArray<WideExcess> excess_;
    std::int64_t most_;          // that an arc of a tile may hold
    std::vector<Site> members_;  // from a tile's first site, by coordinates
    std::size_t arcs_ = 0;       // of a site
    std::vector<Arc> outlet_;    // of every member's arcs: the arc of its tile
    std::vector<Arc> outward_;   // a tile's arcs, but for idle ones
};

}  // namespace dope
