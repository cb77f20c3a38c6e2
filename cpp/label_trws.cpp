#include "label_trws.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>

#include "compensated_sum.h"
#include "label_messages.h"
#include "pause.h"
#include "shared_array.h"

namespace dope {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sites of a line between one look at the other lines and the next.
constexpr Index kChunk = 16;
// Lines that a thread takes at a time. What it reads of its own lines is still at hand, and only
// what the last one left is fetched from where another thread worked.
constexpr Index kBand = 8;
// How often a thread looks again at once before it lets others have the processor.
constexpr int kLooks = 256;

template <class Kind, class Message>
class LabelTrwsOf final : public LabelTrws {
  public:
    LabelTrwsOf(std::shared_ptr<const Kind> neighbors, const LabelProblem& problem)
        : neighbors_(std::move(neighbors)),
          problem_(problem),
          number_(neighbors_->sites()),
          count_(problem.metric.labels()),
          line_(std::max<Index>(1, neighbors_->line_length())),
          part_(static_cast<std::size_t>(number_), 0.0),
          labels_(part_.size(), 0),
          best_(part_.size(), 0),
          done_(static_cast<std::size_t>(number_ / line_)),
          lower_(done_.size()),
          cost_(done_.size()) {
        measure();
        for (const auto& step : neighbors_->line_steps()) {
            if (step.lines == 0) continue;
            behind_.push_back(step);
            lag_ = std::max(lag_, -step.places);
        }
    }

    Index sites() const override { return number_; }
    Index labels() const override { return count_; }
    const std::vector<std::uint16_t>& best() const override { return best_; }
    double energy() const override { return energy_; }
    double bound() const override { return bound_; }
    double rounding_error() const override { return error_; }
    Index rounds() const override { return rounds_; }

    void run(Index rounds, double unit, Index threads, const Poll& poll) override {
        if (busy_.exchange(true)) {
            throw std::runtime_error(
                "these messages are at work in another thread: expected one run at a time");
        }
        const std::unique_ptr<std::atomic<bool>, Release> turn(&busy_);
        if (messages_.empty()) messages_ = SharedArray<Message>(message_count());
        for (Index k = 0; k < rounds; ++k) {
            pass<true>(threads, poll);
            pass<false>(threads, poll);
            ++rounds_;
            const double gap = energy_ - bound_;
            if (gap + error_ < unit || gap <= error_) break;
        }
    }

  private:
    std::size_t message_count() const {
        return static_cast<std::size_t>(neighbors_->slots()) * static_cast<std::size_t>(count_);
    }

    // How many pairs each site has, and what rounding may do to the bound. A number that counts is
    // the sum of a cost c_i(a), of messages, each at most |w| most V, and of w V. Labels whose cost
    // is far above the least of the site's are never among the cheapest, whatever rounding does:
    // t_i(a) is at most 2 n strength above its least where it matters, n pairs of that strength
    // altogether. A sum of n terms rounds n times; 40 covers what else is done at a site and at a
    // pair, with a linear V its log L steps, each of which is paid for by one end or the other. In
    // a lower envelope labels are compared about L times in a row, each time by numbers up to
    // w L^2.
    void measure() {
        const LabelMetric& metric = problem_.metric;
        const double size = static_cast<double>(count_);
        const double most = problem_.tables
                                ? 0.0
                                : 2.0 * std::max(std::abs(metric.least()), std::abs(metric.most()));
        const double curved = metric.kind() == LabelMetric::Kind::kQuadratic && !problem_.tables
                                  ? 4.0 * size * size * size
                                  : 0.0;
        CompensatedSum error;
        Pause pause;
        for (Index i = 0; i < number_; ++i) {
            pause(16 + count_);
            Index above = 0, below = 0;
            double strength = 0.0, weight = 0.0;
            neighbors_->visit_slots(i, [&](Index j, double w, Index slot) {
                if (w == 0.0) return;
                ++(j > i ? above : below);
                weight += std::abs(w);
                strength += std::abs(w) * (problem_.tables ? 2.0 * table_size(slot) : most);
            });
            part_[i] = above + below == 0 ? 0.0 : 1.0 / static_cast<double>(std::max(above, below));
            most_pairs_ = std::max(most_pairs_, static_cast<std::size_t>(above + below));
            const double pairs = static_cast<double>(above + below);
            const auto [cheapest, dearest] = cost_sizes(i);
            const double cost = std::min(dearest, cheapest + 2.0 * (pairs + 1.0) * strength);
            error.add(2.0 * (pairs + 40.0) * (cost + strength) + curved * weight);
        }
        error_ = std::numeric_limits<double>::epsilon() * error.value();
    }

    double table_size(Index slot) const {
        const double* table = problem_.tables + slot * count_ * count_;
        double size = 0.0;
        for (Index k = 0; k < count_ * count_; ++k) size = std::max(size, std::abs(table[k]));
        return size;
    }

    // |the least cost|, and the greatest |cost|.
    std::pair<double, double> cost_sizes(Index i) const {
        if (!inside(i)) return {0.0, 0.0};
        return std::visit(
            [&](const auto* costs) {
                double least = kInfinity, size = 0.0;
                for (Index a = 0; a < count_; ++a) {
                    const double cost = static_cast<double>(costs[i * count_ + a]);
                    least = std::min(least, cost);
                    size = std::max(size, std::abs(cost));
                }
                return std::make_pair(std::abs(least), size);
            },
            problem_.costs);
    }

    bool inside(Index i) const { return !problem_.inside || problem_.inside[i]; }

    void read_costs(Index i, double* out) const {
        if (!inside(i)) {
            std::fill(out, out + count_, 0.0);
            return;
        }
        std::visit(
            [&](const auto* costs) {
                const auto* row = costs + i * count_;
                for (Index a = 0; a < count_; ++a) out[a] = static_cast<double>(row[a]);
            },
            problem_.costs);
    }

    struct Release {
        void operator()(std::atomic<bool>* busy) const { busy->store(false); }
    };

    // What a thread has of its own.
    struct Hands {
        Hands(Index labels, std::size_t pairs) : room(labels), behind(pairs), ahead(pairs) {}
        LabelRoom room;
        std::vector<PairAtHand> behind, ahead;  // of which a site uses the first
    };

    // Bands of lines are begun in order, so the one before all others can always go on.
    template <bool kUp>
    void pass(Index threads, const Poll& poll) {
        for (auto& places : done_) places.store(0, std::memory_order_relaxed);
        const Index lines = static_cast<Index>(done_.size());
        const Index bands = (lines + kBand - 1) / kBand;
        std::atomic<Index> next{0};
        std::atomic<bool> stop{poll()};
        const auto work = [&](const Poll* asked) {
            Hands hands(count_, most_pairs_);
            for (Index band; (band = next.fetch_add(1)) < bands && !stop.load();) {
                walk<kUp>(band * kBand, std::min((band + 1) * kBand, lines), hands, asked, stop);
            }
        };
        std::vector<std::thread> others;
        for (Index k = 1; k < std::min(threads, bands); ++k) others.emplace_back(work, nullptr);
        work(&poll);
        for (auto& other : others) other.join();
        if (stop.load()) {
            messages_ = SharedArray<Message>(message_count());
            throw Interrupted();
        }
        CompensatedSum lower, cost;
        for (Index line = 0; line < lines; ++line) {
            lower.add(lower_[line].value());
            cost.add(cost_[line].value());
        }
        bound_ = std::max(bound_, lower.value());
        if (cost.value() < energy_) {
            energy_ = cost.value();
            best_ = labels_;
        }
    }

    // A band of lines, chunk by chunk through all of them, each line so far behind the one before
    // it that nothing it needs of that one is missing. Lines and places are counted in the
    // direction of the pass.
    template <bool kUp>
    void walk(Index first, Index end, Hands& hands, const Poll* asked, std::atomic<bool>& stop) {
        for (Index line = first; line < end; ++line) lower_[line] = cost_[line] = {};
        const Index last = line_ + (end - 1 - first) * lag_;
        for (Index front = 0; front < last;) {
            front += kChunk;
            if (asked && (*asked)()) stop.store(true);
            for (Index line = first; line < end; ++line) {
                const Index low = done_[line].load(std::memory_order_relaxed);
                const Index high = std::clamp<Index>(front - (line - first) * lag_, low, line_);
                if (!wait(line, high, stop)) return;
                for (Index place = low; place < high; ++place) {
                    const Index k = line * line_ + place;
                    visit<kUp>(kUp ? k : number_ - 1 - k, hands, lower_[line], cost_[line]);
                }
                done_[line].store(high, std::memory_order_release);
            }
        }
    }

    // Until all that the places below `high` need is done; false if there is a stop.
    bool wait(Index line, Index high, const std::atomic<bool>& stop) const {
        for (const auto& step : behind_) {
            if (step.lines > line) continue;
            const Index needed = std::clamp<Index>(high - step.places, 0, line_);
            const std::atomic<Index>& done = done_[line - step.lines];
            for (int look = 0; done.load(std::memory_order_acquire) < needed; ++look) {
                if (stop.load(std::memory_order_relaxed)) return false;
                if (look >= kLooks) std::this_thread::yield();
            }
        }
        return !stop.load(std::memory_order_relaxed);
    }

    template <bool kUp>
    void visit(Index i, Hands& hands, CompensatedSum& lower, CompensatedSum& cost) {
        PairAtHand *behind = hands.behind.data(), *ahead = hands.ahead.data();
        neighbors_->visit_slots(i, [&](Index j, double w, Index slot) {
            if (w == 0.0) return;
            const double* table =
                problem_.tables ? problem_.tables + slot * count_ * count_ : nullptr;
            if (kUp ? j > i : j < i) {
                *ahead++ = {slot, w, table, 0};
            } else {
                *behind++ = {slot, w, table, labels_[j]};
            }
        });
        read_costs(i, hands.room.theta());
        SiteVisit<Message> visit{.metric = &problem_.metric,
                                 .room = &hands.room,
                                 .messages = messages_.data(),
                                 .behind = {hands.behind.data(), behind},
                                 .ahead = {hands.ahead.data(), ahead},
                                 .down = !kUp,
                                 .part = part_[i],
                                 .label = 0,
                                 .cost = 0.0,
                                 .lower = &lower};
        visit_site(visit);
        labels_[i] = static_cast<std::uint16_t>(visit.label);
        cost.add(visit.cost);
    }

    std::shared_ptr<const Kind> neighbors_;
    LabelProblem problem_;
    Index number_, count_, line_, lag_ = 0;
    std::size_t most_pairs_ = 0;                   // of one site
    std::vector<double> part_;                     // 1 / max(pairs up, pairs down)
    std::vector<GridNeighbors::LineStep> behind_;  // to the lines that others wait for
    SharedArray<Message> messages_;                // 0 at first
    std::vector<std::uint16_t> labels_, best_;
    std::vector<std::atomic<Index>> done_;      // places of each line in this pass
    std::vector<CompensatedSum> lower_, cost_;  // of each line in this pass
    double energy_ = kInfinity, bound_ = -kInfinity, error_ = 0.0;
    Index rounds_ = 0;
    std::atomic<bool> busy_{false};
};

template <class Kind>
using Single = LabelTrwsOf<Kind, float>;
template <class Kind>
using Double = LabelTrwsOf<Kind, double>;

}  // namespace

std::unique_ptr<LabelTrws> label_trws(const Neighbors& neighbors, const LabelProblem& problem,
                                      bool single) {
    return single ? neighbors.at_work<LabelTrws, Single>(problem)
                  : neighbors.at_work<LabelTrws, Double>(problem);
}

}  // namespace dope
