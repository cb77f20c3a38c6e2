#include "trws.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "compensated_sum.h"
#include "pause.h"
#include "shared_array.h"

namespace dope {

namespace {

constexpr Index kBetweenPolls = 1 << 12;
constexpr Index kBetweenLooks = 10;  // rounds from one look at the gap to the next

template <class Kind>
class TrwsOf final : public Trws {
  public:
    explicit TrwsOf(std::shared_ptr<const Kind> neighbors)
        : neighbors_(std::move(neighbors)),
          part_(static_cast<std::size_t>(neighbors_->sites()), 0.0),
          strength_(part_.size(), 0.0) {
        Pause pause;
        for (Index i = 0; i < sites(); ++i) {
            pause(16);
            Index above = 0, below = 0;
            double strength = 0.0;
            neighbors_->visit(i, [&](Index j, double w) {
                if (w == 0.0) return;
                ++(j > i ? above : below);
                strength += std::abs(w);
            });
            part_[i] = above + below == 0 ? 0.0 : 1.0 / static_cast<double>(std::max(above, below));
            strength_[i] = strength;
            terms_.push_back(static_cast<double>(above + below));
        }
    }

    Index sites() const override { return neighbors_->sites(); }

    TrwsFound run(const double* unary, const TrwsLimits& limits, const Poll& poll) const override {
        Work work(*this, unary, poll);
        const double error = rounding_error(unary);
        double before = work.bound;
        while (work.rounds < limits.rounds) {
            work.template pass<true>();
            work.template pass<false>();
            ++work.rounds;
            const double gap = work.energy - work.bound;
            if (gap + error < limits.unit || gap <= error) break;
            if (work.rounds % kBetweenLooks == 0) {
                if (work.bound - before <= limits.tolerance * gap) break;
                before = work.bound;
            }
        }
        return {std::move(work.best), work.bound, error, work.rounds};
    }

  private:
    struct Ahead {
        Index slot;
        double weight;
    };

    // One run: messages, labels and the best of what was seen.
    struct Work {
        Work(const TrwsOf& of, const double* prices, const Poll& asked)
            : self(of),
              unary(prices),
              poll(asked),
              messages(static_cast<std::size_t>(of.neighbors_->slots())),
              labels(static_cast<std::size_t>(of.sites())),
              best(labels) {}

        // From site to site, up or down. Labels are chosen on the way: those behind are fixed, of
        // those ahead the messages tell.
        template <bool kUp>
        void pass() {
            CompensatedSum lower, cost;
            const Index number = self.sites();
            for (Index k = 0; k < number; ++k) {
                if (k % kBetweenPolls == 0 && poll()) throw Interrupted();
                visit<kUp>(kUp ? k : number - 1 - k, lower, cost);
            }
            bound = std::max(bound, lower.value());
            if (cost.value() < energy) {
                energy = cost.value();
                best = labels;
            }
        }

        template <bool kUp>
        void visit(Index i, CompensatedSum& lower, CompensatedSum& cost) {
            double told_behind = 0.0, told_ahead = 0.0;  // by messages
            double apart[2] = {0.0, 0.0};  // what label 0, label 1 pays to those behind
            ahead.clear();
            self.neighbors_->visit_slots(i, [&](Index j, double w, Index slot) {
                if (w == 0.0) return;
                if (kUp ? j > i : j < i) {
                    told_ahead += messages[slot];
                    ahead.push_back({slot, w});
                } else {
                    told_behind += messages[slot];
                    apart[!labels[j]] += w;
                }
            });
            labels[i] = unary[i] + apart[1] + told_ahead < apart[0];
            cost.add(labels[i] ? unary[i] : 0.0);
            cost.add(apart[labels[i]]);

            const double t = unary[i] + (told_behind + told_ahead);
            lower.add(std::min(t, 0.0));
            const double zero = self.part_[i] * std::max(-t, 0.0);
            const double one = self.part_[i] * std::max(t, 0.0);
            for (const Ahead& pair : ahead) {
                double& message = messages[pair.slot];
                const double w = pair.weight, reach = std::abs(w);
                const double f0 = std::min(zero, one - message + w);
                const double f1 = std::min(zero + w, one - message);
                message = std::clamp(f1 - f0, -reach, reach);
                lower.add(f0);
            }
        }

        const TrwsOf& self;
        const double* unary;
        const Poll& poll;
        SharedArray<double> messages;  // 0 at first, and first touched where there are pauses
        std::vector<Ahead> ahead;
        std::vector<std::uint8_t> labels, best;
        double energy = std::numeric_limits<double>::infinity();
        double bound = -std::numeric_limits<double>::infinity();
        Index rounds = 0;
    };

    // The terms of t_i are at most |u_i| and |w_ij|, and so are, twice, those of f; a sum of n of
    // them rounds n times. 16 covers what else is done at a site and at a pair: about ten
    // roundings.
    double rounding_error(const double* unary) const {
        double sum = 0.0;
        for (Index i = 0; i < sites(); ++i) {
            sum += (terms_[i] + 16.0) * (std::abs(unary[i]) + strength_[i]);
        }
        return std::numeric_limits<double>::epsilon() * sum;
    }

    std::shared_ptr<const Kind> neighbors_;
    std::vector<double> part_;      // 1 / max(pairs up, pairs down)
    std::vector<double> strength_;  // sum of |w|
    std::vector<double> terms_;     // pairs that weigh
};

}  // namespace

std::unique_ptr<Trws> trws(const Neighbors& neighbors) { return neighbors.at_work<Trws, TrwsOf>(); }

}  // namespace dope
