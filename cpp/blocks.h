// One residual graph, searched block by block.
//
// A network is cut into blocks. Walls shut the arcs that cross from block to block, so that several
// threads can solve different blocks of the one network at the same time; over a wall flow moves
// only here, between the solves. With E(y) as in max_flow.h, at all times
//
//     bound = sum_i min(0, -excess_i) <= min E,      with equality when no path is left;
//     E(y) - bound = the residuals of the shut arcs from label 1 to label 0,
//
// where y are the blocks' labels.
//
// After a solve every site of a block is on one of three sides: the sources reach it, or it reaches
// the sinks, or it is free. An arc over a wall from a source's side to a sink's is a *conflict*, as
// is one from a source's side to free sites that lead, over further walls, to a sink. When there is
// none, the flow is maximal, and the sites that sources reach, walls or not, are the smallest
// minimizer of all.
//
// Conflicts end in one of three ways:
//     push        some flow over each conflict: per arc a step, which grows while the conflict
//                 keeps its direction and halves when it turns round
//     merge       take the walls between two groups of blocks away, and search them as one
//     discharge   send all excess of a block that can leave it towards the nearest sinks, by the
//                 number of walls on the way (Shekhovtsov & Hlavac, IJCV 2013, region discharge):
//                 blocks are never merged
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "balance.h"
#include "block_flow.h"
#include "max_flow.h"
#include "max_flow_check.h"
#include "tile.h"

namespace dope {

// Calls that name a block or a group may be made by several threads at once, for different blocks
// that are not in one group; all others by one thread while no other is at work. When one of them
// was interrupted, flow may be on its way: there is nothing to go on from.
template <class Network>
class Blocks {
  public:
    using Excess = typename Network::Excess;
    using Search = MaxFlow<Network>;
    using Shift = typename Search::Shift;

    // A network that is divided, with capacities.
    Blocks(Network network, double scale)
        : network_(std::move(network)),
          scale_(scale),
          excess_(static_cast<std::size_t>(network_.sites())),
          group_(network_.blocks()),
          blocks_(network_.blocks()) {
        for (std::size_t k = 0; k < blocks_.size(); ++k) {
            group_[k] = k;
            blocks_[k].members = {k};
            blocks_[k].search =
                std::make_unique<Search>(network_, scale, excess_, network_.block(k));
        }
    }

    std::size_t blocks() const { return blocks_.size(); }
    std::size_t sites(std::size_t k) const { return network_.sites_of(network_.block(k)); }
    std::size_t group(std::size_t k) const { return group_[k]; }
    const std::vector<std::size_t>& members(std::size_t g) const { return blocks_[g].members; }

    // --- Blocks one by one -----------------------------------------------------------------------

    // Raises the walls around a block, and clears away what regroup() has left of forests there.
    void wall_in(std::size_t k) {
        Pause pause;
        const auto& search = blocks_[k].search;  // none where it is of another group
        if (search) search->clear_away([&](Site length) { pause(length); });
        network_.for_each_crossing(
            k, [](Site) { return true; },
            [&](Site v, Arc m) {
                pause(4);
                network_.shut(v, m);
            });
    }

    // A new unary for a block, instead of `before`, or of none.
    void price(std::size_t k, const double* unary, const double* before) {
        Block& block = blocks_[k];
        const Search& search = *blocks_[group_[k]].search;
        block.beyond = ExactSum();
        std::size_t i = 0;
        Pause pause;
        network_.for_each_row(network_.block(k), [&](Site first, Site length) {
            pause(4 * length);
            for (Site v = first; v < first + length; ++v, ++i) {
                const Excess now = search.price(unary[i]);
                search.add_beyond(unary[i], block.beyond);
                const Excess old = before ? search.price(before[i]) : Excess{0};
                if (now == old) continue;
                if (before && search.planted()) {
                    block.shifts.push_back({v, static_cast<Excess>(old - now)});
                } else {
                    excess(v) = static_cast<Excess>(excess(v) - now + old);
                }
            }
        });
    }

    // Lets flow run inside a block of a grid, before it is solved, so that the squares of its
    // excesses add up to less (see balance.h), tile by tile. Flow over the borders of tiles stays,
    // until the next time, when they are `shifted`.
    void balance(std::size_t k, bool shifted) {
        if (blocks_[group_[k]].search->planted()) {
            throw std::runtime_error("a block has forests: expected it to be balanced before that");
        }
        Balance balance;
        std::vector<std::uint8_t> taken;
        Pause pause;
        network_.for_each_tile(k, shifted, [&](const Tile& tile) {
            pause(static_cast<std::int64_t>(8 * tile.places));
            if (!tile.arcs.empty()) balance_tile(tile, balance, taken);
        });
    }

    // Solves a group again with what came over its walls.
    void solve(std::size_t g, const Poll& poll) {
        for (const std::size_t h : std::exchange(blocks_[g].absorbed, {})) take_in(g, h);
        std::vector<Shift> shifts;
        for (const std::size_t k : blocks_[g].members) {
            shifts.insert(shifts.end(), blocks_[k].shifts.begin(), blocks_[k].shifts.end());
            blocks_[k].shifts.clear();
        }
        blocks_[g].search->resume(shifts, poll);
    }

    // The labels of a block: the smallest minimizer's, of its group or, once certify() has said
    // that it is known, of all.
    void labels(std::size_t k, bool of_all, bool* out) const {
        if (of_all && marked_.empty()) {
            throw std::runtime_error("the labels of all were asked for: expected certify() first");
        }
        Pause pause;
        network_.for_each_row(network_.block(k), [&](Site first, Site length) {
            pause(2 * length);
            for (Site v = first; v < first + length; ++v) {
                *out++ = network_.level(v) > 0 || (of_all && reached(v));
            }
        });
    }

    // The minimum of a block with the flow over its walls as it is, in units of 1 / scale.
    ExactSum bound(std::size_t k) const {
        ExactSum total = blocks_[k].beyond;
        Pause pause;
        network_.for_each_row(network_.block(k), [&](Site first, Site length) {
            pause(2 * length);
            constexpr Site kTogether = 1 << 12;  // of less than 2^51 each
            while (length > 0) {
                const Site next = first + std::min(kTogether, length);
                length -= next - first;
                std::int64_t sum = 0;
                for (; first < next; ++first) sum += std::min<std::int64_t>(0, -excess(first));
                total.add(sum);
            }
        });
        return total;
    }

    // The flow between a block and places behind its own, also where there is no wall any more.
    std::vector<WallFlow> flows(std::size_t k) const {
        std::vector<WallFlow> found;
        Pause pause;
        network_.for_each_crossing(
            k, [](Site) { return true; },
            [&](Site v, Arc m) {
                pause(8);
                note_flow(v, m, found);
            });
        return found;
    }

    // Finds the conflicts at a block's walls.
    Survey survey(std::size_t k) {
        Survey found;
        std::vector<Conflict>& conflicts = blocks_[k].conflicts;
        conflicts.clear();
        Site last = -1;
        Pause pause;
        network_.for_each_crossing(
            k, [&](Site v) { return network_.level(v) > 0; },
            [&](Site v, Arc m) {
                pause(8);
                // In a group, no open arc leaves the sources' side.
                if (network_.residual(v, m) == 0) return;
                const Site u = network_.head(v, m);
                const Level level = network_.level(u);
                if (level > 0) return;
                found.gap.add(std::int64_t{network_.residual(v, m)});
                found.labelled += v != last;
                last = v;
                if (level < 0) conflicts.push_back({v, m});
            });
        found.conflicts = static_cast<std::int64_t>(conflicts.size());
        return found;
    }

    // Labels of a group that no labels elsewhere can undercut or exceed: the smallest minimizer
    // with everything outside 0, the largest with everything outside 1. One block after another.
    void bracket(std::size_t g, bool outside, bool* out, const Poll& poll) {
        std::vector<Shift> shifts;
        Pause pause;
        for (const std::size_t k : blocks_[g].members) {
            network_.for_each_crossing(
                k, [](Site) { return true; },
                [&](Site v, Arc m) {
                    pause(8);
                    const Site u = network_.head(v, m);
                    const Excess forth = network_.residual(v, m);
                    const Excess back = network_.residual(u, network_.opposite(v, m));
                    const auto amount = static_cast<Excess>(outside ? back : -forth);
                    if (amount != 0 && group_[network_.block_of(u)] != g) {
                        shifts.push_back({v, amount});
                    }
                });
        }
        Search& search = *blocks_[g].search;
        search.resume(shifts, poll);
        for (const std::size_t k : blocks_[g].members) {
            network_.for_each_row(network_.block(k), [&](Site first, Site length) {
                pause(2 * length);
                for (Site v = first; v < first + length; ++v) {
                    *out++ = outside ? network_.level(v) >= 0 : network_.level(v) > 0;
                }
            });
        }
        for (Shift& shift : shifts) shift.amount = static_cast<Excess>(-shift.amount);
        search.resume(shifts, poll);
    }

    // Sends what excess of a group can leave it over walls, to the nearest sinks first, by the
    // distances that measure() found. It arrives with deliver().
    void discharge(std::size_t g, const Poll& poll) {
        std::vector<Way> ways = ways_out(g);
        std::stable_sort(ways.begin(), ways.end(),
                         [](const Way& a, const Way& b) { return a.distance < b.distance; });
        const bool few = ways.size() < kFewWays;
        for (std::size_t first = 0, end = 0; first < ways.size(); first = end) {
            while (end < ways.size() && ways[end].distance == ways[first].distance) ++end;
            const std::span<const Way> alike(ways.data() + first, end - first);
            few ? send_in_turn(g, alike, poll) : send_at_once(g, alike, poll);
        }
        if (!few) blocks_[g].search->replant(poll);
    }

    void check(std::size_t g) { blocks_[g].search->check(); }

    // --- Cuts within cuts ------------------------------------------------------------------------
    //
    // A minimum cut saturates the pairs that it cuts. If their ends keep to the order that they
    // have now, whatever is decided next, such a pair weighs w (y_i - y_j): it is linear, and what
    // flows over it is just that. So it may leave the network, its flow in place, and the sites
    // with label 1 and those with label 0 become problems that know nothing of each other.

    // Takes the pairs of a block's sites with sites of another label out of the network, once
    // certify() has said that labels are known. It is done for all blocks, then regroup() follows,
    // and wall_in() for all. From then on excesses hold more than the unary that price() knows,
    // and bounds are of no energy.
    void part(std::size_t k) {
        if (marked_.empty()) {
            throw std::runtime_error("the labels of all part sites: expected certify() first");
        }
        const auto label = [&](Site v) { return network_.level(v) > 0 || reached(v); };
        Pause pause;
        network_.for_each_row(network_.block(k), [&](Site first, Site length) {
            for (Site v = first; v < first + length; ++v) {
                const bool mine = label(v);
                const Arc arcs = network_.degree(v);
                for (Arc m = 0; m < arcs; ++m) {
                    if (label(network_.head(v, m)) != mine) network_.sever(v, m);
                }
                pause(arcs);
            }
        });
    }
    // Every block is a group by itself again, without forests, once wall_in() was called for all:
    // until then parents may lie in other blocks, where walls were taken away.
    void regroup() {
        for (std::size_t k = 0; k < blocks_.size(); ++k) {
            group_[k] = k;
            blocks_[k] = Block();
            blocks_[k].members = {k};
            blocks_[k].search =
                std::make_unique<Search>(network_, scale_, excess_, network_.block(k));
            blocks_[k].search->stand({0, 0, 0, false});
        }
        paces_.clear();
        marked_.clear();
    }

    // --- All blocks ------------------------------------------------------------------------------

    // Whether no path from a source to a sink is left over any walls, where the surveys found no
    // conflict: then labels() are the smallest minimizer of all. Otherwise there are conflicts now.
    bool certify() {
        marked_.assign(static_cast<std::size_t>(network_.sites()), false);
        bool conflicts = false;
        Pause pause;
        std::vector<Site> queue;  // free sites that lead to a sink
        for_each_before_a_sink([&](Site v) {
            if (network_.level(v) == 0) mark(v, queue);
        });
        for (std::size_t q = 0; q < queue.size(); ++q) {
            const Site v = queue[q];
            pause(4 * network_.degree(v));
            for (Arc m = 0; m < network_.degree(v); ++m) {
                const Site u = network_.head(v, m);
                const Arc towards = network_.opposite(v, m);
                if (u == v || network_.residual(u, towards) == 0) continue;
                if (network_.level(u) == 0) mark(u, queue);
                if (network_.level(u) > 0) {
                    blocks_[network_.block_of(u)].conflicts.push_back({u, towards});
                    conflicts = true;
                }
            }
        }
        if (conflicts) return false;
        reach_free_sites();
        return true;
    }

    // Pushes flow over every conflict; returns how much.
    ExactSum push() {
        ExactSum pushed;
        Pause pause;
        for (Block& block : blocks_) {
            for (const Conflict conflict : block.conflicts) {
                pause(128);
                pushed.add(push_over(conflict));
            }
            block.conflicts.clear();
        }
        return pushed;
    }

    // Groups to solve again.
    std::vector<std::size_t> changed() const {
        std::vector<bool> changed(blocks_.size(), false);
        for (std::size_t k = 0; k < blocks_.size(); ++k) {
            if (!blocks_[k].shifts.empty()) changed[group_[k]] = true;
        }
        std::vector<std::size_t> groups;
        for (std::size_t g = 0; g < blocks_.size(); ++g) {
            if (changed[g]) groups.push_back(g);
        }
        return groups;
    }

    std::vector<Dispute> disputes() const {
        std::map<std::pair<std::size_t, std::size_t>, double> amounts;
        for (std::size_t k = 0; k < blocks_.size(); ++k) {
            for (const Conflict conflict : blocks_[k].conflicts) {
                const std::size_t g = group_[k];
                const std::size_t h =
                    group_[network_.block_of(network_.head(conflict.site, conflict.arc))];
                amounts[{std::min(g, h), std::max(g, h)}] +=
                    static_cast<double>(network_.residual(conflict.site, conflict.arc));
            }
        }
        std::vector<Dispute> found;
        for (const auto& [groups, amount] : amounts) {
            found.push_back({static_cast<std::int64_t>(groups.first),
                             static_cast<std::int64_t>(groups.second), amount});
        }
        return found;
    }

    // Makes two groups one, named by the lower of their names; it has to be solved.
    void merge(std::size_t g, std::size_t h) {
        if (g > h) std::swap(g, h);
        for (const std::size_t k : blocks_[h].members) group_[k] = g;
        blocks_[g].absorbed.push_back(h);
    }

    // Finds, for all sites that reach no sink inside their block, how many walls lie on the way to
    // one.
    void measure() {
        distance_.assign(static_cast<std::size_t>(network_.sites()), kUnreachable);
        std::vector<Site> queue;
        std::vector<Site> next;
        Pause pause;
        const auto reach = [&](Site v, std::int32_t walls, std::vector<Site>& list) {
            std::int32_t& known = distance_[static_cast<std::size_t>(v)];
            if (network_.level(v) < 0 || known != kUnreachable) return;
            known = walls;
            list.push_back(v);
        };
        for_each_before_a_sink([&](Site v) { reach(v, 1, queue); });
        for (std::int32_t walls = 1; !queue.empty(); ++walls) {
            for (std::size_t q = 0; q < queue.size(); ++q) {
                const Site v = queue[q];
                pause(4 * network_.degree(v));
                for (Arc m = 0; m < network_.degree(v); ++m) {
                    const Site u = network_.head(v, m);
                    const Arc towards = network_.opposite(v, m);
                    if (u == v || network_.residual(u, towards) == 0) continue;
                    if (network_.is_open(u, towards)) {
                        reach(u, walls, queue);
                    } else {
                        next.push_back(u);
                    }
                }
            }
            queue.clear();
            for (const Site v : next) reach(v, walls + 1, queue);
            next.clear();
        }
    }

    // What was discharged arrives.
    void deliver() {
        for (Block& block : blocks_) {
            for (const Shift shift : block.sent) {
                blocks_[network_.block_of(shift.place)].shifts.push_back(shift);
            }
            block.sent.clear();
        }
    }

    // The flow that was pushed over walls; all there is while nothing was merged or discharged.
    std::vector<WallFlow> pushed() const {
        std::vector<WallFlow> found;
        for (const auto& [key, pace] : paces_) {
            note_flow(static_cast<Site>(key >> 32), static_cast<Arc>(key & 0xFFFFFFFF), found);
        }
        std::sort(found.begin(), found.end(), [](const WallFlow& a, const WallFlow& b) {
            return std::pair(a.first, a.second) < std::pair(b.first, b.second);
        });
        return found;
    }

    // Lets flow run over a wall before anything is solved, as much of it as fits; between sites
    // that are not neighbors, or in one block, nothing does.
    void impose(const WallFlow& flow) {
        const Site v = network_.place(static_cast<std::size_t>(flow.first));
        const Site u = network_.place(static_cast<std::size_t>(flow.second));
        if (network_.block_of(v) == network_.block_of(u)) return;
        for (Arc m = 0; m < network_.degree(v); ++m) {
            if (network_.head(v, m) != u) continue;
            const std::int64_t forth = network_.residual(v, m);
            const std::int64_t back = network_.residual(u, network_.opposite(v, m));
            // From no flow at all: then the clamp is the weight, either way.
            move(v, m, static_cast<Excess>(std::clamp(flow.amount, -back, forth)));
            pace_of(v, m, v < u);
        }
    }

    std::size_t bytes() const {
        return network_.bytes() + excess_.size() * sizeof(Excess) +
               distance_.size() * sizeof(std::int32_t) + marked_.size() / 8;
    }

    // --- A block whose neighbors live elsewhere --------------------------------------------------
    //
    // The network is then a block and the sites that it has pairs with. Those belong to blocks in
    // other processes, and are never searched here: how far they are from a sink, what flows over
    // the walls and which of them have a label for good, is told.

    // The walls of a block where one end has its label for good (1: label 0, 2: label 1, else 0, by
    // the caller's sites): w |1 - y| and w |0 - y| are flows of w from label 1, or to label 0.
    void hold(std::size_t k, const std::uint8_t* held) {
        Pause pause;
        network_.for_each_crossing(
            k, [](Site) { return true; },
            [&](Site v, Arc m) {
                pause(8);
                const Site u = network_.head(v, m);
                const std::uint8_t mine = held[network_.callers(v)];
                const std::uint8_t theirs = held[network_.callers(u)];
                if ((mine == 0) == (theirs == 0)) return;  // of two held ones nothing is asked
                const Excess forth = network_.residual(v, m);
                const bool out = mine == 2 || theirs == 1;
                const Excess back = network_.residual(u, network_.opposite(v, m));
                carry_over(k, v, m, static_cast<Excess>(out ? forth : -back));
            });
    }

    // Lets flow run over the walls of a block, from its sites (first) to others (second).
    void carry(std::size_t k, const std::vector<WallFlow>& flows) {
        Pause pause;
        for (const WallFlow& flow : flows) {
            pause(16);
            const Site v = network_.place(static_cast<std::size_t>(flow.first));
            const Site u = network_.place(static_cast<std::size_t>(flow.second));
            Arc m = 0;
            while (m < network_.degree(v) && network_.head(v, m) != u) ++m;
            const bool over =
                m < network_.degree(v) && network_.block_of(v) == k && network_.block_of(u) != k;
            if (!over || flow.amount > network_.residual(v, m) ||
                -flow.amount > network_.residual(u, network_.opposite(v, m))) {
                throw std::invalid_argument(
                    "a flow of " + std::to_string(flow.amount) + " runs from site " +
                    std::to_string(flow.first) + " to " + std::to_string(flow.second) +
                    ": expected no more than the pair holds, over a wall of block " +
                    std::to_string(k));
            }
            carry_over(k, v, m, static_cast<Excess>(flow.amount));
        }
    }

    // All that flows over the walls of a block, seen from its sites.
    std::vector<WallFlow> wall_flows(std::size_t k) const {
        std::vector<WallFlow> found;
        Pause pause;
        network_.for_each_crossing(
            k, [](Site) { return true; },
            [&](Site v, Arc m) {
                pause(8);
                const Site u = network_.head(v, m);
                const std::int64_t forth = network_.residual(v, m);
                const std::int64_t back = network_.residual(u, network_.opposite(v, m));
                if (forth == back) return;
                found.push_back({network_.callers(v), network_.callers(u), (back - forth) / 2});
            });
        return found;
    }

    // How many walls lie between sites of others and a sink; those not named are cut off from all.
    void surround(const std::vector<Distance>& around) {
        distance_.assign(static_cast<std::size_t>(network_.sites()), kUnreachable);
        for (Block& block : blocks_) block.sent.clear();  // nobody here takes it in
        for (const Distance& one : around) {
            const Site v = network_.place(static_cast<std::size_t>(one.site));
            distance_[static_cast<std::size_t>(v)] = one.walls;
        }
    }

    // As measure(), for one block, by what surround() was told; more than `most` is out of reach.
    void measure_from(std::size_t k, std::int32_t most) {
        Pause pause;
        network_.for_each_row(network_.block(k), [&](Site first, Site length) {
            pause(length);
            const auto begin = distance_.begin() + first;
            std::fill(begin, begin + length, kUnreachable);
        });
        std::vector<Way> ways;
        network_.for_each_crossing(
            k, [&](Site v) { return network_.level(v) >= 0; },
            [&](Site v, Arc m) {
                pause(8);
                const std::int32_t beyond =
                    distance_[static_cast<std::size_t>(network_.head(v, m))];
                if (beyond < most && network_.residual(v, m) > 0) ways.push_back({v, m, beyond});
            });
        std::stable_sort(ways.begin(), ways.end(),
                         [](const Way& a, const Way& b) { return a.distance < b.distance; });
        std::vector<Site> queue;
        for (std::size_t first = 0, end = 0; first < ways.size(); first = end) {
            const std::int32_t walls = ways[first].distance + 1;
            const auto reach = [&](Site v) {
                std::int32_t& known = distance_[static_cast<std::size_t>(v)];
                if (network_.level(v) < 0 || known != kUnreachable) return;
                known = walls;
                queue.push_back(v);
            };
            queue.clear();
            for (; end < ways.size() && ways[end].distance + 1 == walls; ++end) {
                reach(ways[end].site);
            }
            for (std::size_t q = 0; q < queue.size(); ++q) {
                const Site v = queue[q];
                pause(4 * network_.degree(v));
                for (Arc m = 0; m < network_.degree(v); ++m) {
                    const Site u = network_.head(v, m);
                    if (u != v && network_.is_open(u, network_.opposite(v, m))) reach(u);
                }
            }
        }
    }

    // The sites of a block that have pairs over its walls, how far each is from a sink, and its
    // side.
    std::vector<Distance> border(std::size_t k) const {
        std::vector<Distance> found;
        Site last = -1;
        Pause pause;
        network_.for_each_crossing(
            k, [](Site) { return true; },
            [&](Site v, Arc) {
                pause(2);
                if (v == std::exchange(last, v)) return;
                const std::int32_t walls = distance(v);
                const Level level = network_.level(v);
                found.push_back({network_.callers(v), walls == kUnreachable ? -1 : walls,
                                 level > 0   ? 1
                                 : level < 0 ? -1
                                             : 0});
            });
        return found;
    }

    // Sources elsewhere reach these sites of a block: labels(of_all) has label 1 there, and where
    // they lead inside it. The sites of others that are reached from the block, then.
    std::vector<std::int64_t> reach(std::size_t k, const std::vector<std::int64_t>& from) {
        marked_.assign(static_cast<std::size_t>(network_.sites()), false);
        Pause pause;
        std::vector<Site> queue;
        for (const std::int64_t site : from) {
            const Site v = network_.place(static_cast<std::size_t>(site));
            if (network_.block_of(v) != k || network_.level(v) < 0) {
                throw std::invalid_argument("site " + std::to_string(site) +
                                            " is reached by sources, and leads to a sink or is not "
                                            "in the block: expected no path that is left");
            }
            if (network_.level(v) == 0) mark(v, queue);
        }
        for (std::size_t q = 0; q < queue.size(); ++q) {
            const Site v = queue[q];
            pause(4 * network_.degree(v));
            for (Arc m = 0; m < network_.degree(v); ++m) {
                const Site u = network_.head(v, m);
                if (network_.is_open(v, m) && network_.level(u) == 0) mark(u, queue);
            }
        }
        std::vector<std::int64_t> reached_there;
        network_.for_each_crossing(
            k, [&](Site v) { return network_.level(v) > 0 || reached(v); },
            [&](Site v, Arc m) {
                if (network_.residual(v, m) == 0) return;
                reached_there.push_back(network_.callers(network_.head(v, m)));
            });
        std::sort(reached_there.begin(), reached_there.end());
        reached_there.erase(std::unique(reached_there.begin(), reached_there.end()),
                            reached_there.end());
        return reached_there;
    }

    // What a solved block knows beside the stores, as bytes of this machine; with those, all that
    // its next call goes on from. Nothing that was told of its surroundings is in it.
    std::vector<char> save(std::size_t k) const {
        if (!blocks_[k].shifts.empty()) {
            throw std::runtime_error("flow is on its way to the block: expected solve() first");
        }
        const typename Search::Standing standing = blocks_[k].search->standing();
        static_assert(std::is_trivially_copyable_v<ExactSum>);
        std::vector<char> saved(sizeof(standing) + sizeof(ExactSum));
        std::memcpy(saved.data(), &standing, sizeof(standing));
        std::memcpy(saved.data() + sizeof(standing), &blocks_[k].beyond, sizeof(ExactSum));
        return saved;
    }
    // What save() gave, of a network of the same kind and shape that was divided in the same way,
    // and whose stores were those of this one.
    void load(std::size_t k, const char* saved, std::size_t size) {
        typename Search::Standing standing;
        if (size != sizeof(standing) + sizeof(ExactSum)) {
            throw std::invalid_argument(std::to_string(size) + " bytes were saved: expected " +
                                        std::to_string(sizeof(standing) + sizeof(ExactSum)));
        }
        std::memcpy(&standing, saved, sizeof(standing));
        std::memcpy(&blocks_[k].beyond, saved + sizeof(standing), sizeof(ExactSum));
        blocks_[k].search->stand(standing);
    }
    // Where excesses, residuals and forests lie, which may be written elsewhere and read back.
    std::vector<std::span<std::byte>> stores() {
        std::vector<std::span<std::byte>> found;
        const auto add = [&](void* data, std::size_t bytes) {
            if (bytes > 0) found.emplace_back(static_cast<std::byte*>(data), bytes);
        };
        add(excess_.data(), excess_.size() * sizeof(Excess));
        network_.for_each_store(add);
        return found;
    }

  private:
    struct Conflict {
        Site site;
        Arc arc;
    };
    struct Way {  // over a wall
        Site site;
        Arc arc;
        std::int32_t distance;  // of the place beyond
    };
    struct Block {
        std::vector<std::size_t> members;   // of the group that it names
        std::vector<std::size_t> absorbed;  // groups that have joined since it was solved
        std::unique_ptr<Search> search;     // of that group; none if it names none
        std::vector<Shift> shifts;          // that came over its walls since it was solved
        std::vector<Shift> sent;            // over its group's walls, not yet delivered
        std::vector<Conflict> conflicts;
        ExactSum beyond;  // what its minimum owes to unaries beyond the clamp
    };
    struct Pace {
        float step;
        bool forth;  // the direction of the last push
    };
    // Up to so many ways out are served one by one, with the forests that there are. Of more, 64
    // blocks of 120^3 with 6 neighbors took 14 s of processor time that way, and 9 s all at once.
    static constexpr std::size_t kFewWays = 16;
    // Of 40 to 120, with "l2" and four neighbors (benchmarks/total_variation.py).
    static constexpr int kBalanceTimes = 80;
    static constexpr std::int32_t kUnreachable = std::numeric_limits<std::int32_t>::max();

    Excess& excess(Site v) const { return excess_[static_cast<std::size_t>(v)]; }
    bool reached(Site v) const { return marked_[static_cast<std::size_t>(v)]; }
    void mark(Site v, std::vector<Site>& queue) {
        if (reached(v)) return;
        marked_[static_cast<std::size_t>(v)] = true;
        queue.push_back(v);
    }

    void note_flow(Site v, Arc m, std::vector<WallFlow>& found) const {
        const Site u = network_.head(v, m);
        if (u < v) return;  // seen from there
        const std::int64_t forth = network_.residual(v, m);
        const std::int64_t back = network_.residual(u, network_.opposite(v, m));
        if (forth == back) return;
        found.push_back({network_.callers(v), network_.callers(u), (back - forth) / 2});
    }

    // visit(v) for sites that reach no sink inside and can send flow over a wall to where one is.
    template <class Visit>
    void for_each_before_a_sink(Visit&& visit) const {
        for (std::size_t k = 0; k < blocks_.size(); ++k) {
            network_.for_each_crossing(
                k, [&](Site v) { return network_.level(v) >= 0; },
                [&](Site v, Arc m) {
                    const bool leads = network_.residual(v, m) > 0;
                    if (leads && network_.level(network_.head(v, m)) < 0) visit(v);
                });
        }
    }

    // Marks the free sites that sources reach over walls.
    void reach_free_sites() {
        marked_.assign(marked_.size(), false);
        Pause pause;
        std::vector<Site> queue;
        for (std::size_t k = 0; k < blocks_.size(); ++k) {
            network_.for_each_crossing(
                k, [&](Site v) { return network_.level(v) > 0; },
                [&](Site v, Arc m) {
                    const Site u = network_.head(v, m);
                    if (network_.residual(v, m) > 0 && network_.level(u) == 0) mark(u, queue);
                });
        }
        for (std::size_t q = 0; q < queue.size(); ++q) {
            const Site v = queue[q];
            pause(4 * network_.degree(v));
            for (Arc m = 0; m < network_.degree(v); ++m) {
                const Site u = network_.head(v, m);
                if (network_.residual(v, m) > 0 && network_.level(u) == 0) mark(u, queue);
            }
        }
    }

    // `taken` has a 1 for every place of the tile with a site.
    void balance_tile(const Tile& tile, Balance& balance, std::vector<std::uint8_t>& taken) {
        balance.begin(tile.places, tile.steps);
        taken.assign(tile.places + balance.reach(), 0);
        for (const auto& row : tile.rows) {
            for (Site t = 0; t < row.length; ++t) {
                taken[row.place + static_cast<std::size_t>(t)] = 1;
                balance.excess(row.place + static_cast<std::size_t>(t)) =
                    static_cast<float>(excess(row.first + t));
            }
        }
        // visit(arc of the tile, place, site) for all arcs between its sites.
        const auto for_each_arc = [&](auto&& visit) {
            for (const auto& row : tile.rows) {
                for (std::size_t m = 0; m < tile.arcs.size(); ++m) {
                    const std::uint8_t* ahead = taken.data() + row.place + tile.steps[m];
                    for (Site t = 0; t < row.length; ++t) {
                        if (!ahead[t]) continue;
                        visit(m, row.place + static_cast<std::size_t>(t), row.first + t);
                    }
                }
            }
        };
        for_each_arc([&](std::size_t m, std::size_t p, Site v) {
            const Arc arc = tile.arcs[m];
            const auto forth = static_cast<float>(network_.residual(v, arc));
            const auto back = static_cast<float>(
                network_.residual(network_.head(v, arc), network_.opposite(v, arc)));
            balance.let_flow(m, p, (back - forth) / 2, (back + forth) / 2);
        });
        balance.solve(kBalanceTimes);
        for_each_arc([&](std::size_t m, std::size_t p, Site v) {
            const Arc arc = tile.arcs[m];
            const auto forth = static_cast<float>(network_.residual(v, arc));
            send_along(v, arc, balance.flow(m, p) - (balance.limit(m, p) - forth));
        });
    }

    // As much of this as fits over v's arc m, in whole numbers; negative: back.
    void send_along(Site v, Arc m, float wish) {
        const auto whole = std::llrint(wish);
        if (whole == 0) return;
        const Site u = network_.head(v, m);
        const Arc back = network_.opposite(v, m);
        const auto amount = static_cast<Excess>(std::clamp<std::int64_t>(
            whole, -std::int64_t{network_.residual(u, back)}, network_.residual(v, m)));
        if (amount > 0) network_.push(v, m, u, amount);
        if (amount < 0) network_.push(u, back, v, static_cast<Excess>(-amount));
        excess(v) = static_cast<Excess>(excess(v) - amount);
        excess(u) = static_cast<Excess>(excess(u) + amount);
    }

    // Moves flow over a wall; negative: back.
    void move(Site v, Arc m, Excess amount) {
        if (amount == 0) return;
        const Site u = network_.head(v, m);
        network_.push_over_wall(v, m, amount);
        blocks_[network_.block_of(v)].shifts.push_back({v, static_cast<Excess>(-amount)});
        blocks_[network_.block_of(u)].shifts.push_back({u, amount});
    }

    // The same, where nobody searches the other side.
    void carry_over(std::size_t k, Site v, Arc m, Excess amount) {
        if (amount == 0) return;
        network_.push_over_wall(v, m, amount);
        blocks_[k].shifts.push_back({v, static_cast<Excess>(-amount)});
    }

    // The pace of an arc that flow is pushed over in this direction.
    Pace pace_of(Site v, Arc m, bool forth) {
        constexpr float kFirst = 0.5F;
        constexpr float kFaster = 1.3F;
        constexpr float kSlower = 0.5F;
        const Site u = network_.head(v, m);
        const auto key = static_cast<std::uint64_t>(v < u ? v : u) << 32 |
                         static_cast<std::uint32_t>(v < u ? m : network_.opposite(v, m));
        const auto [found, fresh] = paces_.try_emplace(key, Pace{kFirst, forth});
        Pace& pace = found->second;
        if (!fresh) pace.step *= pace.forth == forth ? kFaster : kSlower;
        pace.forth = forth;
        return pace;
    }

    std::int64_t push_over(Conflict conflict) {
        const auto [v, m] = conflict;
        const Site u = network_.head(v, m);
        const Pace pace = pace_of(v, m, v < u);
        const std::int64_t residual = network_.residual(v, m);
        const std::int64_t weight = (residual + network_.residual(u, network_.opposite(v, m))) / 2;
        const double wish = static_cast<double>(pace.step) * static_cast<double>(weight);
        const std::int64_t amount =
            wish >= static_cast<double>(residual)
                ? residual
                : std::min(residual, std::max<std::int64_t>(1, static_cast<std::int64_t>(wish)));
        move(v, m, static_cast<Excess>(amount));
        return amount;
    }

    // Takes the walls between a group and one that it has been merged with away.
    void take_in(std::size_t g, std::size_t h) {
        Search& search = *blocks_[g].search;
        std::vector<std::size_t>& ours = blocks_[g].members;
        const std::vector<std::size_t> theirs = std::exchange(blocks_[h].members, {});
        std::vector<bool> is_theirs(blocks_.size(), false);
        for (const std::size_t k : theirs) is_theirs[k] = true;
        search.absorb(*blocks_[h].search);
        for (const std::size_t k : ours) {
            const auto near = network_.neighbors(k);
            if (std::none_of(near.begin(), near.end(), [&](auto n) { return is_theirs[n]; }))
                continue;
            network_.for_each_crossing(
                k, [](Site) { return true; },
                [&](Site v, Arc m) {
                    const Site u = network_.head(v, m);
                    if (!is_theirs[network_.block_of(u)]) return;
                    const Arc back = network_.opposite(v, m);
                    network_.unshut(v, m);
                    network_.unshut(u, back);
                    search.notice(v, m);
                    search.notice(u, back);
                });
        }
        blocks_[h].search.reset();
        ours.insert(ours.end(), theirs.begin(), theirs.end());
    }

    // --- Discharge -------------------------------------------------------------------------------

    // How many walls lie between a place and a sink.
    std::int32_t distance(Site v) const {
        return network_.level(v) < 0 ? 0 : distance_[static_cast<std::size_t>(v)];
    }

    // The arcs out of a group from its sources' side that can carry flow to where a sink is.
    std::vector<Way> ways_out(std::size_t g) {
        std::vector<Way> ways;
        for (const std::size_t k : blocks_[g].members) {
            network_.for_each_crossing(
                k, [&](Site v) { return network_.level(v) > 0; },
                [&](Site v, Arc m) {
                    const std::int32_t beyond = distance(network_.head(v, m));
                    if (network_.residual(v, m) == 0 || beyond == kUnreachable) return;
                    if (!network_.is_open(v, m)) ways.push_back({v, m, beyond});
                });
        }
        return ways;
    }

    void send_in_turn(std::size_t g, std::span<const Way> ways, const Poll& poll) {
        // What one way frees may come back in reach of another.
        for (bool again = true; again;) {
            again = false;
            for (const Way& way : ways) again |= send_over(g, way, poll);
        }
    }

    // The sites that ways lead from are sinks for as much as these hold.
    void send_at_once(std::size_t g, std::span<const Way> ways, const Poll& poll) {
        std::vector<Shift> outlets;
        for (const Way& way : ways) {
            const Excess residual = network_.residual(way.site, way.arc);
            if (outlets.empty() || outlets.back().place != way.site)
                outlets.push_back({way.site, 0});
            outlets.back().amount += residual;
        }
        blocks_[g].search->drain_all(outlets, poll);
        auto outlet = outlets.begin();
        for (const Way& way : ways) {
            if (outlet->place != way.site) ++outlet;
            const Excess residual = network_.residual(way.site, way.arc);
            const Excess amount = std::min(residual, outlet->amount);
            if (amount == 0) continue;
            outlet->amount -= amount;
            network_.push_over_wall(way.site, way.arc, amount);
            blocks_[g].sent.push_back({network_.head(way.site, way.arc), amount});
        }
    }

    bool send_over(std::size_t g, const Way& way, const Poll& poll) {
        const Excess residual = network_.residual(way.site, way.arc);
        if (residual == 0 || network_.level(way.site) <= 0) return false;
        const Excess amount = blocks_[g].search->drain(way.site, residual, poll);
        if (amount == 0) return false;
        network_.push_over_wall(way.site, way.arc, amount);
        blocks_[g].sent.push_back({network_.head(way.site, way.arc), amount});
        return true;
    }

    Network network_;
    double scale_;
    SharedArray<Excess> excess_;
    std::vector<std::size_t> group_;  // of each block
    std::vector<Block> blocks_;
    std::unordered_map<std::uint64_t, Pace> paces_;  // of the arcs that were in conflict
    std::vector<bool> marked_;
    std::vector<std::int32_t> distance_;
};

}  // namespace dope
