// Minimum cut by incremental breadth-first search (Goldberg, Hed, Kaplan, Tarjan & Werneck, ESA
// 2011; with excesses and warm starts after Goldberg, Hed, Kaplan, Kohli, Tarjan & Werneck, ESA
// 2015), over any network that offers
//     sites, degree, head, opposite, residual     who neighbors whom, and what can still flow
//     level, set_level, parent, free_all          where a site hangs, kept for MaxFlow
//     for_each_open<away>(v, from, match, visit)  the arcs m >= from that can carry flow away from
//                                                 v, or towards v, to heads whose levels match, in
//                                                 order, until visit(m) returns true
//     for_each_child<away>(v, level, visit)       the arcs to the children of v
//     none_near(v, match), kTogether              can so many sites from v on be passed over?
//     push(v, m, u, amount)                       flow over v's arc m to u; did it close the arc?
//     kHalves, Half                               whether sites can be taken together, and how
//     everything, for_each_row, sites_of, place   the caller's sites, and parts of them
//
// Orientation, said once: every site has one signed excess. It starts as minus the unary, so a site
// with positive excess wants label 1 and is a source, one with negative excess wants label 0 and is
// a sink. Pushing flow over an arc moves excess from its tail to its head and changes no energy:
//     E(y) = sum_i -excess_i y_i + sum_arcs residual_ij y_i (1 - y_j)          at all times.
// When no path with residual capacity leads from a source to a sink, the minimum is -sum of the
// positive excesses, and the sites that sources reach are the smallest minimizer.
//
// Two forests search for such paths, one growing from the sources along open arcs, one from the
// sinks against them. level[v] is the depth of v, positive in the source forest, negative in the
// sink forest, 0 if v is in neither (free). Between any two steps, said for the source forest (the
// other mirrors it):
//   1. A site has excess if and only if it is a root; free sites have none.
//   2. The arc from parent to child is open, and the child is one deeper. Roots may be anywhere.
//   3. If u and v are in the forest and u -> v is open, v is at most one deeper than u.
//   4. Every site less deep than the frontier is scanned: its open arcs end in the same forest.
//   5. No site is deeper than the frontier (plus one while the forest is growing).
// A site whose arc from its parent fills up is an orphan: it takes a parent at the same depth, or
// sinks just as deep as its highest neighbor allows, or becomes free; its children follow. Depths
// never decrease, which bounds the work; and while a site stays at its depth, an arc once found to
// lead to no parent never will (by 3), so the search for the next parent goes on behind the last.
// When a frontier is empty, its forest is all that can be reached.
//
// A warm start keeps flow and forests: a change of the unary is a change of the excess, and
// `settle` restores invariant 1 one site at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "capacities.h"
#include "exact_sum.h"
#include "flow_types.h"
#include "forest.h"
#include "matches.h"
#include "parent.h"
#include "pause.h"
#include "portable_exp.h"
#include "shared_array.h"

namespace dope {

template <class Network>
class MaxFlow {
  public:
    using Excess = typename Network::Excess;
    using Part = typename Network::Part;
    using Excesses = SharedArray<Excess>;  // of all places of a network

    MaxFlow(Network network, double scale)
        : MaxFlow(network, scale, Excesses(static_cast<std::size_t>(network.sites())),
                  network.everything()) {
        unary_ = SharedArray<std::int64_t>(sites_);
    }

    // A search on one part of a network that it shares with others (see blocks.h).
    MaxFlow(Network network, double scale, Excesses excess, Part part)
        : network_(std::move(network)),
          parts_{std::move(part)},
          sites_(network_.sites_of(parts_[0])),
          scale_(scale),
          most_unary_(network_.greatest_sum() + 1),
          excess_(std::move(excess)) {}

    // As if new, with other weights on the network it has.
    template <class Weights>
    void refill(const Weights& weights, double scale, const Poll& poll) {
        state_ = State::kBroken;
        network_.fill(weights, scale, poll);
        scale_ = scale;
        most_unary_ = network_.greatest_sum() + 1;
        std::fill(excess_.begin(), excess_.end(), Excess{0});
        std::fill(unary_.begin(), unary_.end(), 0);
        saturated_ = ExactSum();
        drop_forests();
        state_ = State::kNew;
    }

    // Minimizes with this unary (one number per site of the caller), going on from the last call.
    void minimize(const double* unary, const Poll& poll) {
        require_numbers(unary, unary_.size());
        require_intact();
        begin(poll);
        if (!rootless_ && many_changed(unary)) forget_forests();
        adopt_unary(unary);
        search(Far::kSend);
    }

    // The same where only the unary of `count` sites has changed: to unary[k] at the caller's site
    // changed[k]. The work is in proportion to the change.
    void change(const std::int64_t* changed, const double* unary, std::size_t count,
                const Poll& poll) {
        require_solved();
        in_pieces(
            static_cast<std::int64_t>(count),
            [&](std::int64_t low, std::int64_t high) {
                for (std::int64_t k = low; k < high; ++k) require_change(changed[k], unary[k]);
            },
            64);
        begin(poll);
        for (std::size_t k = 0; k < count; ++k) {
            const auto i = static_cast<std::size_t>(changed[k]);
            adopt_unary_at(network_.place(i), i, rounded(unary[k]));
        }
        search(Far::kSend);
    }

    // The smallest or the largest minimizer, in the caller's order.
    void labels(bool largest, bool* out, const Poll& poll) {
        require_solved();
        begin(poll);
        if (largest) {
            close<kSink>();
        } else {
            close<kSource>();
        }
        state_ = State::kSolved;
        Pause pause_reading;
        for_each_row([&](Site first, std::size_t callers, Site length) {
            pause_reading(length);
            for (Site t = 0; t < length; ++t) {
                const Level level = network_.level(first + t);
                out[callers + static_cast<std::size_t>(t)] = largest ? level >= 0 : level > 0;
            }
        });
    }

    // The minimum in units of 1 / scale.
    ExactSum minimum() const {
        require_solved();
        ExactSum total = saturated_;
        // A few at a time: 2^9 numbers below 2^52 fit into 64 bits.
        constexpr std::int64_t kFew = 512;
        const auto add_negative = [&](const auto& numbers, std::int64_t sign, std::int64_t more) {
            const auto add = [&](std::int64_t low, std::int64_t high) {
                for (std::int64_t end; low < high; low = end) {
                    end = std::min(high, low + kFew);
                    std::int64_t sum = 0;
                    for (std::int64_t i = low; i < end; ++i) {
                        sum += std::min<std::int64_t>(0, sign * std::int64_t{numbers[i]} + more);
                    }
                    total.add(sum);
                }
            };
            in_pieces(static_cast<std::int64_t>(numbers.size()), add);
        };
        add_negative(excess_, -1, 0);
        add_negative(unary_, 1, most_unary_);
        return total;
    }
    // The same in the caller's units, rounded down.
    double value() const { return minimum().floor(-std::ilogb(scale_)); }

    const Network& network() const { return network_; }

    static std::size_t bytes_needed(std::size_t network_bytes, std::size_t sites,
                                    std::size_t real_sites) {
        return network_bytes + sites * sizeof(Excess) + real_sites * sizeof(std::int64_t);
    }
    std::size_t bytes() const {
        return bytes_needed(network_.bytes(), excess_.size(), unary_.size());
    }

    // Recomputes what must hold after minimize() and throws std::runtime_error where it does not.
    void check();

    // --- As one of several searches on a network -------------------------------------------------

    // Excess that comes to a place from beyond the parts, or leaves it.
    struct Shift {
        Site place;
        Excess amount;
    };

    // A unary as it enters an excess.
    Excess price(double unary) const { return clamped(rounded(unary)); }

    // Adds what of a unary lies beyond that: it is below 0, as there label 1 is certain.
    void add_beyond(double unary, ExactSum& sum) const {
        const std::int64_t whole = rounded(unary) + most_unary_;
        if (whole >= 0) return;
        sum.add(whole);
        add_saturated(unary, sum);
    }

    // Minimizes after these shifts, going on from the last call, and lets both forests grow until
    // they hold all they can reach.
    void resume(const std::vector<Shift>& shifts, const Poll& poll) {
        require_intact();
        begin(poll);
        mend_forests();
        for (const Shift shift : shifts) {
            at(excess_, shift.place) += shift.amount;
            if (!rootless_) settle(shift.place);
            pause(1);
        }
        search(Far::kGoOn);  // a block's own ways are short
        close<kSource>();
        close<kSink>();
    }

    // Takes up to `most` of the excess that can flow to v, and returns how much.
    Excess drain(Site v, Excess most, const Poll& poll) {
        begin(poll);
        Excess drained = 0;
        while (network_.level(v) > 0 && drained < most) {
            const Excess amount =
                std::min(climb<kSource>(v, source_path_), static_cast<Excess>(most - drained));
            send<kSource>(source_path_, amount);
            drained += amount;
            adopt<kSource>();
            if (rootless_) search(Far::kGoOn);
            close<kSource>();
            close<kSink>();
        }
        state_ = State::kSolved;
        return drained;
    }

    // Takes the excess that can flow to these places, up to the amount of each; leaves there how
    // much that was. No forests are left: replant() follows when all is taken.
    void drain_all(std::vector<Shift>& places, const Poll& poll) {
        begin(poll);
        forget_forests();
        for (const Shift& one : places) at(excess_, one.place) -= one.amount;
        search(Far::kGoOn);
        for (Shift& one : places) {
            // What is below 0 was not taken: it held no sink, or sources would not have reached it.
            const Excess left = std::min<Excess>(0, at(excess_, one.place));
            at(excess_, one.place) -= left;
            one.amount += left;
        }
        drop_forests();
        state_ = State::kSolved;
    }
    void replant(const Poll& poll) { resume({}, poll); }

    // Works on the other's parts, too, from now on. Both are solved.
    void absorb(MaxFlow& other) {
        parts_.insert(parts_.end(), other.parts_.begin(), other.parts_.end());
        sites_ += other.sites_;
        adoptions_when_cold_ += other.adoptions_when_cold_;
        if (rootless_ || other.rootless_) return drop_forests();
        // All is scanned in both, so that the frontier may be deeper than any site.
        for (Forest* mine : {&source_, &sink_}) {
            const Forest& theirs = mine == &source_ ? other.source_ : other.sink_;
            mine->depth = mine->most = std::max(mine->depth, theirs.depth);
        }
    }

    // Must be told of every arc that is opened between the parts, from either end.
    void notice(Site v, Arc m) {
        if (rootless_ || !network_.is_open(v, m)) return;
        const Site u = network_.head(v, m);
        notice_in<kSource>(v, u);
        notice_in<kSink>(u, v);
    }

    // Solves what is on tiles of another search's sites (see grid_half.h).
    void solve_tiles(const Poll& poll) {
        begin(poll);
        if (sites() >= kFewSites && has_tiles()) send_far();
        search(Far::kGoOn);
    }

    std::int64_t sites() const { return static_cast<std::int64_t>(sites_); }
    // Whether there are forests, which a change of an excess has to be settled in.
    bool planted() const { return !rootless_; }

    // What a solved search knows beside the network, so that another on the same one goes on there.
    struct Standing {
        Level source_depth;
        Level sink_depth;
        std::int64_t adoptions_when_cold;
        bool planted;
    };
    Standing standing() const {
        require_solved();
        return {source_.depth, sink_.depth, adoptions_when_cold_,
                !rootless_ && source_.closed() && sink_.closed()};
    }
    // Clears away the forests that were dropped. A search looks at the parents of sites beside its
    // own, so that none may be left there that point to those.
    template <class Rest>
    void clear_away(Rest&& rest) {
        if (!dropped_) return;
        for_each_row([&](Site first, std::size_t, Site length) {
            network_.free_all(first, first + length);
            rest(length);
        });
        source_ = Forest();
        sink_ = Forest();
        now_.clear();
        children_.clear();
        dropped_ = false;
    }
    void stand(const Standing& there) {
        source_ = sink_ = Forest();
        source_.depth = source_.most = there.source_depth;
        sink_.depth = sink_.most = there.sink_depth;
        adoptions_when_cold_ = there.adoptions_when_cold;
        rootless_ = dropped_ = !there.planted;
        state_ = State::kSolved;
    }

  private:
    using StoredArc = typename Network::StoredArc;
    static constexpr StoredArc kNone = Parent<StoredArc>::kNone;
    static constexpr StoredArc kRoot = Parent<StoredArc>::kRoot;
    static constexpr StoredArc kArc = Parent<StoredArc>::kArc;
    static constexpr StoredArc kFresh = Parent<StoredArc>::kFresh;

    enum class State { kNew, kSolved, kInterrupted, kBroken };

    struct Conflict {
        Site site;
        Arc arc;
    };

    static Excess& at(const Excesses& values, Site v) {
        return values[static_cast<std::size_t>(v)];
    }

    // visit(place of the first site, its place in the caller's arrays, length) for every row.
    template <class Visit>
    void for_each_row(Visit&& visit) const {
        std::size_t callers = 0;
        for (const Part& part : parts_) {
            network_.for_each_row(part, [&](Site first, Site length) {
                visit(first, callers, length);
                callers += static_cast<std::size_t>(length);
            });
        }
    }
    // visit(place, its place in the caller's arrays) for every site.
    template <class Visit>
    void for_each_site(Visit&& visit) const {
        for_each_row([&](Site first, std::size_t callers, Site length) {
            for (Site t = 0; t < length; ++t)
                visit(first + t, callers + static_cast<std::size_t>(t));
        });
    }

    template <int side>
    Forest& forest() {
        return side == kSource ? source_ : sink_;
    }
    template <int side>
    bool closed() const {
        return side == kSource ? source_.closed() : sink_.closed();
    }
    // Equals no arc where v has no parent.
    Arc parent_arc(Site v) const { return static_cast<Arc>(network_.parent(v) & kArc); }

    void begin(const Poll& poll) {
        poll_ = &poll;
        if (dropped_) forget_forests();
        state_ = State::kBroken;  // until the end, or an interruption at a place where all is well
        // A change may tear old forests down site by site and level by level, which takes far
        // longer than to plant new ones: with ADMM on 7x7, 30 times as long. So there is a limit.
        most_adoptions_ = adoptions_ + adoptions_when_cold_ / 2 + sites();
    }

    // What to do where flow has far to go: let it find its way on tiles, or go on as before.
    enum class Far { kSend, kGoOn };

    void search(Far far) {
        if (std::max(source_.depth, sink_.depth) > kMostLevels) forget_forests();
        const bool cold = rootless_;
        const std::int64_t before = adoptions_;
        if (!Network::kHalves || !cold || parts_.size() > 1 || sites() < kFewSites) {
            far = Far::kGoOn;
        }
        std::int64_t hung = std::numeric_limits<std::int64_t>::max();  // anew, at the last depth
        for (;;) {
            if (rootless_) {
                plant_forests();
                push_to_neighbors();
            }
            if (closed<kSource>() || closed<kSink>()) break;
            const std::int64_t so_far = adoptions_;
            grow<kSource>();
            if (!closed<kSource>()) grow<kSink>();
            if (!cold) forget_forests_in_the_way();
            // Where ways are short there is less to do at every depth.
            const std::int64_t more = adoptions_ - so_far;
            if (far == Far::kSend && more > std::max(hung, sites() / kSitesPerFew)) {
                far = Far::kGoOn;
                if (has_tiles()) {
                    forget_forests();
                    send_far();
                }
            }
            hung = more;
        }
        if (cold) adoptions_when_cold_ = adoptions_ - before;
        state_ = State::kSolved;
    }

    bool has_tiles() const {
        if constexpr (Network::kHalves) return Network::Half::fits(network_, parts_[0]);
        return false;
    }

    // Lets flow find its way over long distances on tiles of sites (see grid_half.h), on tiles of
    // those, and so on; for a network without forests.
    void send_far() {
        if constexpr (Network::kHalves) {
            typename Network::Half half(network_, parts_[0]);
            const auto pause_for = [&](std::int64_t sites) { pause(sites); };
            half.gather(excess_, pause_for);
            MaxFlow<typename Network::Half::Network> tiles(half.network(), 1.0, half.excess(),
                                                           half.network().everything());
            try {
                tiles.solve_tiles(*poll_);
            } catch (const Interrupted&) {
                state_ = State::kInterrupted;
                throw;
            }
            half.spread(network_, excess_, pause_for);
        }
    }

    // Lets a forest grow until it holds all it can reach; only where no path is left.
    template <int side>
    void close() {
        while (!closed<side>()) grow<side>();
    }

    // Fewer sites have no long ways; and of a depth at which fewer than one site in so many was
    // hung anew nothing follows. With contrast weights and few seeds (A2h, A1h and C1h of the
    // benchmarks) sending flow far saves 30 to 40 % of the time; where each pixel says something
    // (A1e, A2e, C1e), it is never done.
#ifdef DOPE_FUZZ
    static constexpr std::int64_t kFewSites = 8;
    static constexpr std::int64_t kSitesPerFew = 1 << 20;
#else
    static constexpr std::int64_t kFewSites = 4096;
    static constexpr std::int64_t kSitesPerFew = 32;
#endif

    void forget_forests_in_the_way() {
        if (adoptions_ <= most_adoptions_) return;
        forget_forests();
        most_adoptions_ = std::numeric_limits<std::int64_t>::max();  // the new ones stay
    }

    // Positive if and only if v is in the forest.
    template <int side>
    Level depth(Site v) const {
        return side * network_.level(v);
    }

    // --- The unary -----------------------------------------------------------------------------

    // In units of 1 / scale. Beyond kMostUnary it is saturated.
    std::int64_t rounded(double unary) const {
        constexpr auto kMost = static_cast<double>(kMostUnary);
        return static_cast<std::int64_t>(nearest(std::clamp(unary * scale_, -kMost, kMost)));
    }

    // What saturation takes from the minimum, added to it: in units, and nothing where it takes
    // none.
    void add_saturated(double unary, ExactSum& sum) const {
        const double scaled = unary * scale_;
        if (scaled >= -static_cast<double>(kMostUnary)) return;
        sum.add(kMostUnary);
        if (scaled > -0x1p52) {
            sum.add(std::nearbyint(scaled));
        } else {
            sum.add(unary, std::ilogb(scale_));  // whole in units; as a double it may be infinite
        }
    }

    // Beyond the clamp a site's label is settled whatever its neighbors do, so all minimizers stay.
    Excess clamped(std::int64_t unary) const {
        const std::int64_t most = most_unary_;
        return static_cast<Excess>(std::clamp(unary, -most, most));
    }

    // Old forests help if few sites changed, and may be in the way if many did: with noise added to
    // one unary in 20, keeping them took 0.1 to 1.1 times as long as planting new ones; one in 5,
    // 0.3 to 2.7; to all, 0.4 to 1.7 (one run each on A1e, A1h, C1h and C2e).
    bool many_changed(const double* unary) {
        constexpr std::size_t kFew = 4;  // one in so many
        std::size_t changed = 0;
        for_each_row([&](Site, std::size_t callers, Site length) {
            const std::size_t end = callers + static_cast<std::size_t>(length);
            for (std::size_t i = callers; i < end; ++i) changed += rounded(unary[i]) != unary_[i];
            pause(length);
        });
        return changed > unary_.size() / kFew;
    }

    // Gives the forests up; what is left of them is cleared away by the next call that needs that.
    void drop_forests() { rootless_ = dropped_ = true; }

    void forget_forests() {
        drop_forests();
        clear_away([&](Site length) { pause(length); });
    }

    void adopt_unary(const double* unary) {
        saturated_ = ExactSum();
        for_each_row([&](Site first, std::size_t callers, Site length) {
            for (Site t = 0; t < length; ++t) {
                const std::size_t i = callers + static_cast<std::size_t>(t);
                add_saturated(unary[i], saturated_);
                adopt_unary_at(first + t, i, rounded(unary[i]));
            }
            pause(length);
        });
    }

    // While there are no forests, only the excess is kept up.
    void adopt_unary_at(Site v, std::size_t i, std::int64_t now) {
        // From one end of the clamp to the other may be more than an excess holds.
        const std::int64_t change = std::int64_t{clamped(now)} - clamped(unary_[i]);
        unary_[i] = now;
        if (change == 0) return;
        at(excess_, v) = static_cast<Excess>(at(excess_, v) - change);
        if (rootless_) return;
        settle(v);
        pause(1);
    }

    void plant_forests() {
        rootless_ = false;
        for_each_row([&](Site first, std::size_t, Site length) {
            for (Site v = first; v < first + length; ++v) settle(v);
            pause(length);
        });
    }

    // The first augmentations, from a root to a root beside it, while the forests are but roots: on
    // an easy problem they are most of all, and cost a fraction of what they would later.
    void push_to_neighbors() {
        for_each_row([&](Site first, std::size_t, Site length) {
            for (Site v = first; v < first + length; ++v) {
                if (network_.level(v) <= 0) continue;
                pause(1);
                push_from(v);
            }
        });
    }

    void push_from(Site v) {
        Excess left = at(excess_, v);
        network_.template for_each_open<true>(v, 0, AtLevel(-1), [&](Arc m) {
            const Site u = network_.head(v, m);
            const Excess wanted = -at(excess_, u);
            const Excess amount =
                std::min({left, wanted, static_cast<Excess>(network_.residual(v, m))});
            network_.push(v, m, u, amount);
            at(excess_, u) += amount;
            left -= amount;
            if (amount == wanted) uproot(u);
            return left == 0;
        });
        at(excess_, v) = left;
        if (left == 0) uproot(v);
    }

    // Frees a root that has no excess left, and no children yet.
    void uproot(Site v) {
        network_.set_level(v, 0);
        network_.parent(v) = kNone;
    }

    // Restores invariant 1 at v, whose excess is new.
    void settle(Site v) {
        if (network_.level(v) > 0) settle_in<kSource>(v);
        if (network_.level(v) < 0) settle_in<kSink>(v);
        if (rootless_) return;  // the forests were in the way
        if (network_.level(v) == 0 && at(excess_, v) > 0) plant<kSource>(v);
        if (network_.level(v) == 0 && at(excess_, v) < 0) plant<kSink>(v);
    }

    // At the frontier's depth a new root breaks no invariant: v was free, so open arcs into v come
    // from unscanned sites, and nothing in the forest is deeper.
    template <int side>
    void plant(Site v) {
        network_.set_level(v, side * forest<side>().depth);
        network_.parent(v) = kRoot;
        forest<side>().enlist(v, forest<side>().depth);
    }

    template <int side>
    void settle_in(Site v) {
        if (side * at(excess_, v) > 0) {
            network_.parent(v) = kRoot;
            return;
        }
        if (network_.parent(v) == kRoot) {
            orphan(v, forest<side>().orphans);
            adopt<side>();
        }
        // An excess of the other sign is fed from v's own roots until it is gone or v is free.
        while (depth<side>(v) > 0 && side * at(excess_, v) < 0) {
            const Excess amount =
                std::min(climb<side>(v, source_path_), static_cast<Excess>(-side * at(excess_, v)));
            at(excess_, v) += static_cast<Excess>(side * amount);
            send<side>(source_path_, amount);
            adopt<side>();
            forget_forests_in_the_way();
        }
    }

    // --- Growth --------------------------------------------------------------------------------

    template <int side>
    void grow() {
        Forest& mine = forest<side>();
        mine.most = mine.depth + 1;
        if (!mine.listed()) grow_roots<side>();
        for (std::size_t k = 0; k < mine.frontier.size(); ++k) {  // which may grow meanwhile
            pause(1);
            const Site v = mine.frontier[k];
            if (depth<side>(v) == mine.depth) scan<side>(v);
        }
        if (rootless_) return;  // an augmentation tore the forests down
        mine.frontier.clear();
        mine.frontier.swap(mine.next);
        ++mine.depth;
    }

    // The first step of growth. Most roots of an easy problem lie among roots of their own kind.
    template <int side>
    void grow_roots() {
        constexpr Site kTogether = Network::kTogether;
        for_each_row([&](Site first, std::size_t, Site length) {
            for (Site v = first; v < first + length; ++v) {
                if ((v - first) % kTogether == 0 && network_.none_near(v, OutsideOf<side>())) {
                    v += kTogether - 1;
                    continue;
                }
                if (depth<side>(v) != forest<side>().depth) continue;
                pause(1);
                scan<side>(v);
            }
        });
    }

    template <int side>
    void scan(Site v) {
        constexpr bool away = side == kSource;
        Forest& mine = forest<side>();
        Arc from = 0;
        bool again = true;
        while (again) {  // since every augmentation opens and closes arcs
            again = false;
            network_.template for_each_open<away>(v, from, OutsideOf<side>(), [&](Arc m) {
                const Site u = network_.head(v, m);
                if (network_.level(u) == 0) {
                    network_.set_level(u, side * (mine.depth + 1));
                    network_.parent(u) = static_cast<StoredArc>(network_.opposite(v, m) | kFresh);
                    mine.enlist(u, mine.depth + 1);
                    return false;
                }
                away ? augment(v, m) : augment(u, network_.opposite(v, m));
                again = depth<side>(v) == mine.depth;
                from = m;  // perhaps still open, to a site that still leads to a root
                return true;
            });
        }
    }

    // --- Flow ----------------------------------------------------------------------------------

    // Sends what fits from a root of the source forest over v's arc m to a root of the sink forest.
    void augment(Site v, Arc m) {
        const Site u = network_.head(v, m);
        const Excess amount =
            std::min({static_cast<Excess>(network_.residual(v, m)), climb<kSource>(v, source_path_),
                      climb<kSink>(u, sink_path_)});
        network_.push(v, m, u, amount);
        send<kSource>(source_path_, amount);
        send<kSink>(sink_path_, amount);
        adopt<kSource>();
        adopt<kSink>();
        work_ += kWorkOfAugment;
    }

    // Notes the way from v to its root, and returns how much can flow along it.
    template <int side>
    Excess climb(Site v, Path& path) const {
        path.steps.clear();
        Excess least = std::numeric_limits<Excess>::max();
        while (network_.parent(v) != kRoot) {
            const Arc m = parent_arc(v);
            const Site u = network_.head(v, m);
            const auto residual = side == kSource ? network_.residual(u, network_.opposite(v, m))
                                                  : network_.residual(v, m);
            least = std::min(least, static_cast<Excess>(residual));
            path.steps.push({v, m});
            v = u;
        }
        path.root = v;
        return std::min(least, static_cast<Excess>(side * at(excess_, v)));
    }

    // Lets `amount` flow along the path; orphans end up on the stack deepest first.
    template <int side>
    void send(const Path& path, Excess amount) {
        for (const auto [v, m] : path.steps) {
            const Site u = network_.head(v, m);
            const bool closed_now = side == kSource
                                        ? network_.push(u, network_.opposite(v, m), v, amount)
                                        : network_.push(v, m, u, amount);
            if (closed_now) orphan(v, forest<side>().orphans);
        }
        at(excess_, path.root) -= static_cast<Excess>(side * amount);
        if (at(excess_, path.root) == 0) orphan(path.root, forest<side>().orphans);
    }

    // --- Adoption ------------------------------------------------------------------------------

    void orphan(Site v, Stack<Orphan>& list) {
        const StoredArc arc = network_.parent(v);
        const bool searched = arc < kFresh;
        list.push({v, searched ? static_cast<Arc>(arc) + 1 : 0});
        network_.parent(v) = kNone;
    }

    // Finds homes for the orphans, the least deep first: then no orphan is left above the one at
    // hand, and children that follow are one deeper than it was.
    template <int side>
    void adopt() {
        Stack<Orphan>& orphans = forest<side>().orphans;
        // A long chain, cut off from its root, would come apart in quadratic time: plant anew.
        const std::int64_t most = adoptions_ + 4 * sites();
        now_.clear();
        Level at_depth = 0;
        while (!now_.empty() || !orphans.empty()) {
            if (now_.empty()) at_depth = depth<side>(orphans.top().site);
            while (!orphans.empty() && depth<side>(orphans.top().site) == at_depth) {
                now_.push(orphans.pop());
            }
            children_.clear();
            for (const Orphan orphan : now_) adopt_one<side>(orphan);
            adoptions_ += static_cast<std::int64_t>(now_.size());
            pause(static_cast<std::int64_t>(now_.size()));
            if (adoptions_ > most) return forget_forests();
            now_.swap(children_);
            ++at_depth;
        }
    }

    template <int side>
    void adopt_one(Orphan orphan) {
        const Site v = orphan.site;
        const Arc arc = parent_at<side>(v, orphan.from, depth<side>(v) - 1);
        if (arc >= 0) {
            network_.parent(v) = static_cast<StoredArc>(arc);
            return;
        }
        disown_children<side>(v);
        sink_deeper<side>(v);
    }

    // The first arc from `from` on that leads to a possible parent of this depth; -1 if there is
    // none.
    template <int side>
    Arc parent_at(Site v, Arc from, Level wanted) const {
        constexpr bool towards = side != kSource;
        Arc found = -1;
        if (wanted < 1) return found;
        network_.template for_each_open<towards>(v, from, AtLevel(side * wanted), [&](Arc m) {
            found = m;
            return true;
        });
        return found;
    }

    // Hangs v, which has no children, as high as it can; frees it where that is too deep.
    template <int side>
    void sink_deeper(Site v) {
        constexpr bool towards = side != kSource;
        Forest& mine = forest<side>();
        const Level old = depth<side>(v);
        // A parent must be less deep than `most`. No neighbor is less deep than v, many are as
        // deep.
        Arc best = old < mine.most ? parent_at<side>(v, 0, old) : -1;
        Level least = best < 0 ? mine.most : old;
        if (best < 0 && old + 1 < mine.most) {
            network_.template for_each_open<towards>(v, 0, Anywhere(), [&](Arc m) {
                const Level found = depth<side>(network_.head(v, m));
                if (found > 0 && found < least) {
                    least = found;
                    best = m;
                }
                return false;
            });
        }
        if (best < 0) {
            network_.set_level(v, 0);
            return;
        }
        network_.parent(v) = static_cast<StoredArc>(best);
        network_.set_level(v, side * (least + 1));
        mine.enlist(v, least + 1);
    }

    template <int side>
    void disown_children(Site v) {
        network_.template for_each_child<side == kSource>(
            v, side * (depth<side>(v) + 1), [&](Arc m) { orphan(network_.head(v, m), children_); });
    }

    // --- Mending -------------------------------------------------------------------------------

    // Arcs that open between scanned sites break invariant 3 or 4. Where nothing flows, a wave from
    // the shallowest of their tails restores both: it takes in free sites and lifts those that it
    // reaches on a shorter way. Arcs from the source forest to the sink forest are left; over these
    // flow is sent, and where they are open still, the wave sets out again.

    // An open arc, away from the root of a forest's tree.
    template <int side>
    void notice_in(Site from, Site to) {
        const Level near = depth<side>(from);
        if (near <= 0) return;
        const Level far = depth<side>(to);
        if (far == near + 1) search_anew(to);
        if (far > 0 && far <= near + 1) return;
        Stack<Site>& torn = forest<side>().torn;
        if (torn.empty() || torn.top() != from) torn.push(from);
    }

    // An earlier arc may lead to a parent after all.
    void search_anew(Site v) {
        if (network_.parent(v) < kFresh) network_.parent(v) |= kFresh;
    }

    void mend_forests() {
        while (!rootless_ && !(source_.torn.empty() && sink_.torn.empty())) {
            lift<kSource>();
            lift<kSink>();
            for (const Conflict conflict : conflicts_) {
                while (still_in_conflict(conflict)) {
                    pause(1);
                    augment(conflict.site, conflict.arc);
                }
            }
            for (const Conflict conflict : conflicts_) {
                if (!rootless_) notice(conflict.site, conflict.arc);
            }
            conflicts_.clear();
        }
        source_.torn.clear();
        sink_.torn.clear();
        waves_.clear();
    }

    bool still_in_conflict(Conflict conflict) const {
        const Site u = network_.head(conflict.site, conflict.arc);
        return !rootless_ && network_.level(conflict.site) > 0 && network_.level(u) < 0 &&
               network_.is_open(conflict.site, conflict.arc);
    }

    template <int side>
    void lift() {
        Forest& mine = forest<side>();
        // Unscanned sites join in, for the frontier may have to move on.
        for (const Site v : mine.frontier) mine.torn.push(v);
        mine.frontier.clear();
        for (const Site v : mine.torn) {
            if (depth<side>(v) > 0) wave_at(depth<side>(v)).push(v);
        }
        mine.torn.clear();
        for (Level at_depth = 1; at_depth < static_cast<Level>(waves_.size()); ++at_depth) {
            for (std::size_t k = 0; k < wave_at(at_depth).size(); ++k) {
                const Site v = wave_at(at_depth)[k];
                if (depth<side>(v) != at_depth) continue;
                pause(1);
                lift_from<side>(v, at_depth);
            }
            if (!wave_at(at_depth).empty()) mine.depth = std::max(mine.depth, at_depth + 1);
            wave_at(at_depth).clear();
        }
        mine.most = mine.depth;
    }

    Stack<Site>& wave_at(Level at_depth) {
        const auto place = static_cast<std::size_t>(at_depth);
        if (place >= waves_.size()) waves_.resize(place + 1);
        return waves_[place];
    }

    template <int side>
    void lift_from(Site v, Level at_depth) {
        constexpr bool away = side == kSource;
        network_.template for_each_open<away>(v, 0, Anywhere(), [&](Arc m) {
            const Site u = network_.head(v, m);
            const Level found = depth<side>(u);
            if (found < 0) {
                conflicts_.push(away ? Conflict{v, m} : Conflict{u, network_.opposite(v, m)});
            } else if (found == at_depth + 1) {
                search_anew(u);
            } else if (found == 0 || found > at_depth + 1) {
                network_.set_level(u, side * (at_depth + 1));
                if (found == 0 || network_.parent(u) != kRoot) {
                    network_.parent(u) = static_cast<StoredArc>(network_.opposite(v, m) | kFresh);
                }
                wave_at(at_depth + 1).push(u);
            }
            return false;
        });
    }

    // --- Interruption and state -----------------------------------------------------------------

    static constexpr std::int64_t kWorkOfAugment = 8;  // measured in scanned sites, roughly

    // Called only where flow and excess agree, so that dropping the forests makes all well. To
    // clear them away at once would take too long for somebody who waits for the end.
    void pause(std::int64_t work) {
#ifdef DOPE_FUZZ
        constexpr std::int64_t kWorkBetweenPolls = 1;  // small networks are interrupted, too
#else
        constexpr std::int64_t kWorkBetweenPolls = 1 << 16;  // some milliseconds
#endif
        work_ += work;
        if (work_ < kWorkBetweenPolls || !*poll_) return;
        work_ = 0;
        if (!(*poll_)()) return;
        drop_forests();
        state_ = State::kInterrupted;
        throw Interrupted();
    }

    void require_intact() const {
        if (state_ == State::kBroken) {
            throw std::runtime_error("an earlier call failed half-way: expected a new flow");
        }
    }
    void require_solved() const {
        require_intact();
        if (state_ == State::kNew)
            throw std::runtime_error("expected minimize() to be called first");
        if (state_ == State::kInterrupted) {
            throw std::runtime_error("minimize() was interrupted: expected it to be called again");
        }
    }

    void require_change(std::int64_t site, double unary) const {
        const auto sites = static_cast<std::int64_t>(unary_.size());
        if (site < 0 || site >= sites) {
            throw std::invalid_argument("a change is at site " + std::to_string(site) +
                                        ": expected 0 to " + std::to_string(sites - 1));
        }
        const double most = static_cast<double>(kMostUnary) / scale_;
        const std::string expected = "expected less than " + text(most) +
                                     " for a change; give the whole unary to minimize() instead";
        if (!(std::abs(unary) < most)) {
            throw std::invalid_argument("the unary of site " + std::to_string(site) + " is " +
                                        text(unary) + ": " + expected);
        }
        if (std::abs(unary_[static_cast<std::size_t>(site)]) == kMostUnary) {
            throw std::invalid_argument("the unary of site " + std::to_string(site) +
                                        " was too large before: " + expected);
        }
    }

    void check_flow() const;
    template <int side>
    void check_forest() const;
    void check_minimum();

    Network network_;
    std::vector<Part> parts_;
    std::size_t sites_;
    double scale_;
    Excess most_unary_;
    State state_ = State::kNew;
    bool rootless_ = true;  // the forests were forgotten: every site with excess needs planting
    bool dropped_ = false;  // and have yet to be cleared away

    Excesses excess_;
    // In units of 1 / scale, in the caller's order; nothing where the network is shared.
    SharedArray<std::int64_t> unary_;
    ExactSum saturated_;  // what saturation takes from the minimum, in the same units

    Forest source_;
    Forest sink_;
    Path source_path_;
    Path sink_path_;
    Stack<Orphan> now_;  // orphans at one depth
    Stack<Orphan> children_;
    std::vector<Stack<Site>> waves_;  // by depth, the sites that mending has to scan
    Stack<Conflict> conflicts_;       // open arcs from the source forest to the sink forest
    const Poll* poll_ = nullptr;      // of the call at hand
    std::int64_t work_ = 0;           // since it was last asked
    std::int64_t adoptions_ = 0;
    std::int64_t adoptions_when_cold_ = 0;  // in the last solve that planted new forests
    std::int64_t most_adoptions_ = 0;       // before old forests are given up
};

}  // namespace dope
