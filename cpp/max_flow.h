// Minimum cut by incremental breadth-first search (Goldberg, Hed, Kaplan, Tarjan & Werneck, ESA
// 2011; with excesses and warm starts after Goldberg, Hed, Kaplan, Kohli, Tarjan & Werneck, ESA
// 2015), over any network that offers degree, head, opposite, residual, for_each_open and push.
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
#include "flow_types.h"
#include "forest.h"
#include "marks.h"
#include "portable_exp.h"

namespace dope {

template <class Network>
class MaxFlow {
  public:
    using Excess = typename Network::Excess;

    MaxFlow(Network network, double scale)
        : network_(std::move(network)),
          scale_(scale),
          most_unary_(network_.greatest_sum() + 1),
          excess_(static_cast<std::size_t>(network_.sites()), 0),
          level_(static_cast<std::size_t>(network_.sites()), 0),
          marks_(static_cast<std::size_t>(network_.sites())),
          parent_(static_cast<std::size_t>(network_.sites()), kNone),
          unary_(network_.real_sites(), 0) {}

    // Minimizes with this unary (one number per site of the caller), going on from the last call.
    void minimize(const double* unary, const Poll& poll) {
        require_numbers(unary, unary_.size());
        require_intact();
        state_ = State::kBroken;  // until the end, or an interruption at a place where all is well
        prepare_forests(unary);
        adopt_unary(unary, poll);
        while (!closed<kSource>() && !closed<kSink>()) {
            grow<kSource>(poll);
            if (!closed<kSource>()) grow<kSink>(poll);
        }
        state_ = State::kSolved;
    }

    // The smallest or the largest minimizer, in the caller's order.
    void labels(bool largest, bool* out) {
        require_solved();
        state_ = State::kBroken;
        const Poll never;
        if (largest) {
            while (!closed<kSink>()) grow<kSink>(never);
        } else {
            while (!closed<kSource>()) grow<kSource>(never);
        }
        state_ = State::kSolved;
        network_.for_each_row([&](Site first, std::size_t callers, Site length) {
            for (Site t = 0; t < length; ++t) {
                const Level level = at(level_, first + t);
                out[callers + static_cast<std::size_t>(t)] = largest ? level >= 0 : level > 0;
            }
        });
    }

    // The minimum in the caller's units.
    double value() const {
        require_solved();
        // In two parts, since many large excesses can exceed 63 bits.
        std::int64_t high = 0;
        std::int64_t low = 0;
        for (const Excess e : excess_) {
            if (e <= 0) continue;
            high += e >> 20;
            low += e & ((1 << 20) - 1);
        }
        const double minimum = -(static_cast<double>(high) * 0x1p20 + static_cast<double>(low));
        return (minimum + clamped_) / scale_;
    }

    static std::size_t bytes_needed(std::size_t network_bytes, std::size_t sites,
                                    std::size_t real_sites) {
        return network_bytes + Network::SiteMarks::bytes_needed(sites) +
               sites * (sizeof(Excess) + sizeof(Level) + sizeof(StoredArc)) +
               real_sites * sizeof(Excess);
    }
    std::size_t bytes() const {
        return bytes_needed(network_.bytes(), excess_.size(), unary_.size());
    }

    // Recomputes what must hold after minimize() and throws std::runtime_error where it does not.
    void check();

  private:
    using StoredArc = typename Network::StoredArc;
    // What stands in `parent`: an arc; or with kFresh an arc that a growing forest chose, so that
    // earlier arcs may lead to a parent at the same depth; or one of two words that equal no arc,
    // with or without kFresh.
    static constexpr StoredArc kNone = std::numeric_limits<StoredArc>::max();  // free, or an orphan
    static constexpr StoredArc kRoot = kNone - 1;
    static constexpr StoredArc kArc = kNone >> 1;
    static constexpr StoredArc kFresh = kArc + 1;
    static_assert((kRoot & kArc) >= Network::kMostArcs);

    enum class State { kNew, kSolved, kInterrupted, kBroken };

    template <class T>
    static T& at(std::vector<T>& values, Site v) {
        return values[static_cast<std::size_t>(v)];
    }
    template <class T>
    static const T& at(const std::vector<T>& values, Site v) {
        return values[static_cast<std::size_t>(v)];
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
    Arc parent_arc(Site v) const { return static_cast<Arc>(at(parent_, v) & kArc); }

    void set_level(Site v, Level level) {
        at(level_, v) = level;
        marks_.set(v, level);
    }

    // Positive if and only if v is in the forest.
    template <int side>
    Level depth(Site v) const {
        return side * at(level_, v);
    }

    // --- The unary -----------------------------------------------------------------------------

    // Beyond the clamp a site's label is settled whatever its neighbors do, so all minimizers stay.
    Excess quantized(double unary) const {
        const auto most = static_cast<double>(most_unary_);
        return static_cast<Excess>(nearest(std::clamp(unary * scale_, -most, most)));
    }

    // Old forests help if few sites changed, and may be in the way if many did: with noise added to
    // one unary in 20, keeping them took 0.1 to 1.1 times as long as planting new ones; one in 5,
    // 0.3 to 2.7; to all, 0.4 to 1.7 (one run each on A1e, A1h, C1h and C2e).
    void prepare_forests(const double* unary) {
        constexpr std::size_t kFew = 4;  // one in so many
        std::size_t changed = 0;
        for (std::size_t i = 0; i < unary_.size(); ++i) changed += quantized(unary[i]) != unary_[i];
        if (changed > unary_.size() / kFew || std::max(source_.depth, sink_.depth) > kMostLevels) {
            forget_forests();
        }
    }

    void forget_forests() {
        std::fill(level_.begin(), level_.end(), 0);
        marks_.clear();
        std::fill(parent_.begin(), parent_.end(), kNone);
        source_ = Forest();
        sink_ = Forest();
        rootless_ = true;
    }

    void adopt_unary(const double* unary, const Poll& poll) {
        clamped_ = 0.0;
        network_.for_each_row([&](Site first, std::size_t callers, Site length) {
            for (Site t = 0; t < length; ++t) {
                const std::size_t i = callers + static_cast<std::size_t>(t);
                const Excess now = quantized(unary[i]);
                const Excess change = now - unary_[i];
                const double beyond = unary[i] * scale_ + static_cast<double>(most_unary_);
                if (beyond < 0.0) clamped_ += std::nearbyint(beyond);
                if (change == 0 && !rootless_) continue;
                pause(poll, 1);
                unary_[i] = now;
                at(excess_, first + t) -= change;
                settle(first + t);
            }
        });
        rootless_ = false;
    }

    // Restores invariant 1 at v, whose excess is new.
    void settle(Site v) {
        if (at(level_, v) > 0) settle_in<kSource>(v);
        if (at(level_, v) < 0) settle_in<kSink>(v);
        if (at(level_, v) == 0 && at(excess_, v) > 0) plant<kSource>(v);
        if (at(level_, v) == 0 && at(excess_, v) < 0) plant<kSink>(v);
    }

    // At the frontier's depth a new root breaks no invariant: v was free, so open arcs into v come
    // from unscanned sites, and nothing in the forest is deeper.
    template <int side>
    void plant(Site v) {
        set_level(v, side * forest<side>().depth);
        at(parent_, v) = kRoot;
        forest<side>().enlist(v, forest<side>().depth);
    }

    template <int side>
    void settle_in(Site v) {
        if (side * at(excess_, v) > 0) {
            at(parent_, v) = kRoot;
            return;
        }
        if (at(parent_, v) == kRoot) {
            orphan(v, orphans_);
            adopt<side>();
        }
        // An excess of the other sign is fed from v's own roots until it is gone or v is free.
        while (depth<side>(v) > 0 && side * at(excess_, v) < 0) {
            const Excess amount =
                std::min(climb<side>(v, source_path_), static_cast<Excess>(-side * at(excess_, v)));
            at(excess_, v) += static_cast<Excess>(side * amount);
            send<side>(source_path_, amount);
            adopt<side>();
        }
    }

    // --- Growth --------------------------------------------------------------------------------

    template <int side>
    void grow(const Poll& poll) {
        Forest& mine = forest<side>();
        mine.most = mine.depth + 1;
        for (Site v = 0; !mine.listed() && v < network_.sites(); ++v) {
            if (depth<side>(v) != mine.depth) continue;
            pause(poll, 1);
            scan<side>(v);
        }
        for (std::size_t k = 0; k < mine.frontier.size(); ++k) {  // which may grow meanwhile
            pause(poll, 1);
            const Site v = mine.frontier[k];
            if (depth<side>(v) == mine.depth) scan<side>(v);
        }
        mine.frontier.clear();
        mine.frontier.swap(mine.next);
        ++mine.depth;
    }

    template <int side>
    void scan(Site v) {
        constexpr bool away = side == kSource;
        Forest& mine = forest<side>();
        Arc from = 0;
        bool again = true;
        while (again) {  // since every augmentation opens and closes arcs
            again = false;
            network_.template for_each_open<away>(v, from, marks_, OutsideOf<side>(), [&](Arc m) {
                const Site u = network_.head(v, m);
                if (depth<side>(u) > 0) return false;
                if (at(level_, u) == 0) {
                    set_level(u, side * (mine.depth + 1));
                    at(parent_, u) = static_cast<StoredArc>(network_.opposite(v, m) | kFresh);
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
        network_.push(v, m, amount);
        send<kSource>(source_path_, amount);
        if (!orphans_.empty()) adopt<kSource>();
        send<kSink>(sink_path_, amount);
        if (!orphans_.empty()) adopt<kSink>();
        work_ += kWorkOfAugment;
    }

    // Notes the way from v to its root, and returns how much can flow along it.
    template <int side>
    Excess climb(Site v, Path& path) const {
        path.steps.clear();
        Excess least = std::numeric_limits<Excess>::max();
        while (at(parent_, v) != kRoot) {
            const Arc m = parent_arc(v);
            const Site u = network_.head(v, m);
            const auto residual = side == kSource ? network_.residual(u, network_.opposite(v, m))
                                                  : network_.residual(v, m);
            least = std::min(least, static_cast<Excess>(residual));
            path.steps.push_back({v, m});
            v = u;
        }
        path.root = v;
        return std::min(least, static_cast<Excess>(side * at(excess_, v)));
    }

    // Lets `amount` flow along the path; orphans end up on the stack deepest first.
    template <int side>
    void send(const Path& path, Excess amount) {
        for (const auto [v, m] : path.steps) {
            const bool closed_now = side == kSource ? network_.push(network_.head(v, m),
                                                                    network_.opposite(v, m), amount)
                                                    : network_.push(v, m, amount);
            if (closed_now) orphan(v, orphans_);
        }
        at(excess_, path.root) -= static_cast<Excess>(side * amount);
        if (at(excess_, path.root) == 0) orphan(path.root, orphans_);
    }

    // --- Adoption ------------------------------------------------------------------------------

    void orphan(Site v, std::vector<Orphan>& list) {
        const StoredArc arc = at(parent_, v);
        const bool searched = arc < kFresh;
        list.push_back({v, searched ? static_cast<Arc>(arc) + 1 : 0});
        at(parent_, v) = kNone;
    }

    // Finds homes for the orphans, the least deep first: then no orphan is left above the one at
    // hand, and children that follow are one deeper than it was.
    template <int side>
    void adopt() {
        now_.clear();
        Level at_depth = 0;
        while (!now_.empty() || !orphans_.empty()) {
            if (now_.empty()) at_depth = depth<side>(orphans_.back().site);
            while (!orphans_.empty() && depth<side>(orphans_.back().site) == at_depth) {
                now_.push_back(orphans_.back());
                orphans_.pop_back();
            }
            children_.clear();
            for (const Orphan orphan : now_) adopt_one<side>(orphan);
            work_ += static_cast<std::int64_t>(now_.size());
            now_.swap(children_);
            ++at_depth;
        }
    }

    template <int side>
    void adopt_one(Orphan orphan) {
        const Site v = orphan.site;
        const Arc arc = parent_at<side>(v, orphan.from, depth<side>(v) - 1);
        if (arc >= 0) {
            at(parent_, v) = static_cast<StoredArc>(arc);
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
        network_.template for_each_open<towards>(v, from, marks_, AtLevel(side * wanted),
                                                 [&](Arc m) {
                                                     if (depth<side>(network_.head(v, m)) != wanted)
                                                         return false;
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
            network_.template for_each_open<towards>(v, 0, marks_, Anywhere(), [&](Arc m) {
                const Level found = depth<side>(network_.head(v, m));
                if (found > 0 && found < least) {
                    least = found;
                    best = m;
                }
                return false;
            });
        }
        if (best < 0) {
            set_level(v, 0);
            return;
        }
        at(parent_, v) = static_cast<StoredArc>(best);
        set_level(v, side * (least + 1));
        mine.enlist(v, least + 1);
    }

    template <int side>
    void disown_children(Site v) {
        constexpr bool away = side == kSource;
        const AtLevel match(side * (depth<side>(v) + 1));
        network_.template for_each_open<away>(v, 0, marks_, match, [&](Arc m) {
            const Site u = network_.head(v, m);
            if (parent_arc(u) == network_.opposite(v, m)) orphan(u, children_);
            return false;
        });
    }

    // --- Interruption and state -----------------------------------------------------------------

    static constexpr std::int64_t kWorkOfAugment = 8;  // measured in scanned sites, roughly

    // Called only where flow and excess agree, so that forgetting the forests makes all well.
    void pause(const Poll& poll, std::int64_t work) {
        constexpr std::int64_t kWorkBetweenPolls = 1 << 16;  // some milliseconds
        work_ += work;
        if (work_ < kWorkBetweenPolls || !poll) return;
        work_ = 0;
        if (!poll()) return;
        forget_forests();
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

    void check_flow() const;
    template <int side>
    void check_forest() const;
    void check_minimum();

    Network network_;
    double scale_;
    Excess most_unary_;
    State state_ = State::kNew;
    bool rootless_ = true;  // the forests were forgotten: every site with excess needs planting

    std::vector<Excess> excess_;
    std::vector<Level> level_;
    typename Network::SiteMarks marks_;  // of the levels
    std::vector<StoredArc> parent_;      // the arc to the parent, kRoot or kNone
    std::vector<Excess> unary_;          // quantized and clamped, in the caller's order
    double clamped_ = 0.0;               // what the clamp took from the energy, in units of 1/scale

    Forest source_;
    Forest sink_;
    Path source_path_;
    Path sink_path_;
    std::vector<Orphan> orphans_;  // of one path, deepest first
    std::vector<Orphan> now_;      // orphans at one depth
    std::vector<Orphan> children_;
    std::int64_t work_ = 0;
};

}  // namespace dope
