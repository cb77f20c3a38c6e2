#include "spins.h"

#include <algorithm>
#include <limits>

namespace dope {

namespace {

// No flip of a site that is not decided costs as much; every one of a decided site costs more.
constexpr double kMostCutoff = (1 << 29) + (1 << 22);

// A flip that costs more than so many temperatures does not happen: once in 10^10 tries.
constexpr double kBeyond = 23.0;

// So many sites that cost too much are passed by in the time that it takes to draw for one.
constexpr Site kPassed = 8;

// So many sweeps in a row without a flip that costs something: it is frozen.
constexpr Index kQuietSweeps = 4;

}  // namespace

Spins::Spins(const WholePairs& pairs, const std::vector<std::int32_t>& unary)
    : pairs_(&pairs), unary_(&unary), spin_(unary.size(), 1), cost_(unary.size()) {
    stand(spin_);
}

void Spins::stand(const std::vector<std::int8_t>& spins) {
    spin_ = spins;
    energy_ = 0;
    std::int64_t twice = 0;  // pairs are seen from both ends
    for (Site i = 0; i < sites(); ++i) {
        const auto row = pairs_->row(i);
        std::int32_t sum = 0;
        for (const auto& [step, weight] : row) {
            sum += weight * spin_[i + step];
            if (spin_[i] != spin_[i + step]) twice += weight;
        }
        cost_[i] = spin_[i] * ((*unary_)[i] + sum);
        if (spin_[i] < 0) energy_ += (*unary_)[i];
        pause_(16 + static_cast<Index>(row.size()));
    }
    energy_ += twice / 2;
    work_ += sites() + pairs_->arcs();
}

void Spins::anneal(const Cooling& cooling, Lots& lots) {
    const double last = static_cast<double>(std::max<Index>(cooling.sweeps - 1, 1));
    const double first = 1.0 / cooling.hot, grown = 1.0 / cooling.cold - first;
    Index quiet = 0;
    for (Index k = 0; k < cooling.sweeps && quiet < kQuietSweeps; ++k) {
        Index moved = 0;
        sweep(1.0 / (first + grown * (static_cast<double>(k) / last)), lots, moved);
        quiet = moved ? 0 : quiet + 1;
    }
}

void Spins::sweep(double temperature, Lots& lots, Index& moved) {
    const auto t = static_cast<float>(temperature);
    const auto cutoff = static_cast<std::int32_t>(std::min(kBeyond * temperature, kMostCutoff));
    const Site end = sites();
    std::int64_t weighed = 0;
    for (Site low = 0; low < end; low += kChunk) {
        const Site high = static_cast<Site>(std::min<Index>(low + kChunk, end));
        std::int32_t least = std::numeric_limits<std::int32_t>::max();
        for (Site i = low; i < high; ++i) least = std::min(least, cost_[i]);
        if (least > cutoff) continue;
        for (Site i = low; i < high; ++i) {
            const std::int32_t cost = cost_[i];
            if (cost > cutoff) continue;
            ++weighed;
            if (cost > 0 && static_cast<float>(cost) > t * lots.exponential()) continue;
            moved += cost != 0;
            flip(i);
        }
        pause_(kChunk);
    }
    work_ += end / kPassed + weighed;
}

void Spins::descend() {
    do {
        for (bool gained = true; gained;) {
            gained = false;
            for (Site i = 0; i < sites(); ++i) {
                if (cost_[i] >= 0) continue;
                flip(i);
                gained = true;
            }
            pause_(sites());
            work_ += sites() / kPassed;
        }
    } while (flip_pairs());
}

bool Spins::flip_pairs() {
    bool gained = false;
    for (Site i = 0; i < sites(); ++i) {
        const auto row = pairs_->row(i);
        for (const auto& [step, weight] : row) {
            if (step < 0) continue;
            const Site j = i + step;
            const std::int64_t both = std::int64_t{cost_[i]} + cost_[j] -
                                      std::int64_t{2} * weight * (spin_[i] * spin_[j]);
            if (both >= 0) continue;
            flip(i);
            flip(j);
            gained = true;
        }
        pause_(1 + static_cast<Index>(row.size()));
    }
    work_ += pairs_->arcs();
    return gained;
}

void Spins::tabu(Index steps, Lots& lots) {
    constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();
    const Site end = sites();
    const Index tenure = std::min<Index>(end / 4, 10 + end / 100);
    until_.assign(spin_.size(), 0);
    std::vector<Site>& since = part_;  // flips since the best
    since.clear();
    std::int64_t best = energy_;
    for (Index step = 1; step <= steps; ++step) {
        std::int32_t least = kNever, any = kNever;
        for (Site i = 0; i < end; ++i) {
            any = std::min(any, cost_[i]);
            least = std::min(least, until_[i] >= step ? kNever : cost_[i]);
        }
        const bool aspired = energy_ + any < best;
        if (aspired) least = any;
        if (least > kMostCutoff) break;
        Site i = static_cast<Site>(lots.index(static_cast<std::uint64_t>(end)));  // of equals, any
        while (cost_[i] != least || (!aspired && until_[i] >= step)) i = i + 1 < end ? i + 1 : 0;
        flip(i);
        until_[i] = step + tenure + static_cast<Index>(lots.index(10));
        if (energy_ < best) {
            best = energy_;
            since.clear();
        } else {
            since.push_back(i);
        }
        pause_(end);
        work_ += end / kPassed;
    }
    for (; !since.empty(); since.pop_back()) flip(since.back());
}

void Spins::cross(const std::vector<std::int8_t>& others) {
    marks_.assign(spin_.size(), 0);
    for (Site i = 0; i < sites(); ++i) marks_[i] = spin_[i] != others[i];
    for (Site root = 0; root < sites(); ++root) {
        if (!marks_[root]) continue;
        part_.assign(1, root);
        marks_[root] = 2;
        std::int64_t cost = 0;
        for (std::size_t k = 0; k < part_.size(); ++k) {
            const Site i = part_[k];
            cost += cost_[i];
            const auto row = pairs_->row(i);
            for (const auto& [step, weight] : row) {
                const Site j = i + step;
                if (!marks_[j]) continue;
                cost -= std::int64_t{weight} * (spin_[i] * spin_[j]);
                if (marks_[j] == 2) continue;
                marks_[j] = 2;
                part_.push_back(j);
            }
            pause_(static_cast<Index>(row.size()));
        }
        for (const Site i : part_) marks_[i] = 0;
        if (cost > 0) continue;
        for (const Site i : part_) flip(i);
    }
    work_ += 2 * sites();
}

}  // namespace dope
