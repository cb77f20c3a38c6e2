#include "standpoint.h"

#include <queue>
#include <utility>

#include "pause.h"
#include "shared_array.h"

namespace dope {

namespace {

// What a site with its neighbors, and a flip, are to a Pause.
constexpr Index kWorkOfSite = 16;
constexpr Index kWorkOfFlip = 128;

template <class Kind>
class StandpointOf final : public Standpoint {
  public:
    explicit StandpointOf(std::shared_ptr<const Kind> neighbors)
        : neighbors_(std::move(neighbors)),
          size_(static_cast<std::size_t>(neighbors_->sites())),
          labels_(size_),
          prices_(size_),
          tangents_(size_),
          noise_(size_),
          strength_(size_),
          repulsion_(size_) {
        Pause pause;
        for (Index i = 0; i < sites(); ++i) {
            pause(kWorkOfSite);
            double attracted = 0.0, repelled = 0.0;
            neighbors_->visit(
                i, [&](Index, double w) { (w < 0.0 ? repelled : attracted) += std::abs(w); });
            strength_[i] = attracted + repelled;
            repulsion_[i] = repelled;
        }
    }

    Index sites() const override { return neighbors_->sites(); }
    const std::uint8_t* labels() const override { return labels_.data(); }
    const double* prices() const override { return prices_.data(); }
    const double* tangents() const override { return tangents_.data(); }
    const double* repulsion() const override { return repulsion_.data(); }

    void stand(const double* unary, const std::uint8_t* labels) override {
        Pause pause;
        for (Index i = 0; i < sites(); ++i) labels_[i] = labels[i] != 0;
        for (Index i = 0; i < sites(); ++i) {
            pause(kWorkOfSite);
            double attracted = 0.0, repelled = 0.0;
            neighbors_->visit(i, [&](Index j, double w) {
                (w < 0.0 ? repelled : attracted) += labels_[j] ? -w : w;
            });
            prices_[i] = unary[i] + attracted + repelled;
            tangents_[i] = unary[i] + repelled;
            noise_[i] = kNoise * (std::abs(unary[i]) + strength_[i]);
        }
    }

    Falls falls(const std::uint8_t* to) const override {
        double linear = 0.0, attracted = 0.0, repelled = 0.0;
        Pause pause;
        for (Index i = 0; i < sites(); ++i) {
            const int change = (to[i] != 0) - labels_[i];
            pause(change == 0 ? 1 : kWorkOfSite);
            if (change == 0) continue;
            linear += change * prices_[i];
            neighbors_->visit(i, [&](Index j, double w) {
                if (j >= i) return;  // each pair once
                (w < 0.0 ? repelled : attracted) += change * ((to[j] != 0) - labels_[j]) * w;
            });
        }
        const double predicted = 2.0 * attracted - linear;
        return {predicted + 2.0 * repelled, predicted};
    }

    void move(const std::uint8_t* to) override {
        Pause pause;
        for (Index i = 0; i < sites(); ++i) {
            const bool moves = (to[i] != 0) != (labels_[i] != 0);
            pause(moves ? kWorkOfSite : 1);
            if (moves) flip(i);
        }
    }

    Index descend(Index most) override {
        std::priority_queue<Wish> wishes;
        Pause pause;
        for (Index i = 0; i < sites(); ++i) {
            wish(i, wishes);
            pause(4);
        }
        Index flips = 0;
        while (!wishes.empty() && flips < most) {
            pause(kWorkOfFlip);
            const Wish top = wishes.top();
            wishes.pop();
            if (gain(-top.second) != top.first)
                continue;  // out of date; its renewal is in the queue
            const Index i = -top.second;
            flip(i);
            neighbors_->visit(i, [&](Index j, double w) {
                if (w != 0.0) wish(j, wishes);
            });
            ++flips;
        }
        return flips;
    }

    void repelled_before(const std::int64_t* rank, double* out) const override {
        Pause pause;
        for (Index i = 0; i < sites(); ++i) {
            pause(kWorkOfSite);
            double sum = 0.0;
            neighbors_->visit(i, [&](Index j, double w) {
                if (w < 0.0 && rank[j] < rank[i]) sum -= 2.0 * w;
            });
            out[i] = sum;
        }
    }

  private:
    using Wish = std::pair<double, Index>;  // gain and -site: the lower site is the greater wish
    static constexpr double kNoise = 1e-12;

    double gain(Index i) const { return labels_[i] ? prices_[i] : -prices_[i]; }

    void wish(Index i, std::priority_queue<Wish>& wishes) const {
        if (gain(i) > noise_[i]) wishes.emplace(gain(i), -i);
    }

    void flip(Index i) {
        const double twice = labels_[i] ? 2.0 : -2.0;  // (1 - 2 y) moves by this
        labels_[i] = !labels_[i];
        neighbors_->visit(i, [&](Index j, double w) {
            prices_[j] += twice * w;
            if (w < 0.0) tangents_[j] += twice * w;
        });
    }

    std::shared_ptr<const Kind> neighbors_;
    std::size_t size_;
    // First touched where there are pauses.
    SharedArray<std::uint8_t> labels_;
    SharedArray<double> prices_, tangents_, noise_, strength_, repulsion_;
};

}  // namespace

std::unique_ptr<Standpoint> standpoint(const Neighbors& neighbors) {
    return neighbors.at_work<Standpoint, StandpointOf>();
}

}  // namespace dope
