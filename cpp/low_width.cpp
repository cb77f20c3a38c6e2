#include "low_width.h"

#include <algorithm>
#include <bit>

namespace dope {

namespace {

// Of so many open sites the one with most neighbors is held.
constexpr int kCandidates = 4;

}  // namespace

LowWidth::LowWidth(const WholePairs& pairs, const std::vector<std::int32_t>& unary)
    : pairs_(&pairs),
      unary_(&unary),
      price_(unary.size()),
      open_(unary.size()),
      around_(unary.size()),
      tables_(unary.size()),
      order_(unary.size()) {
    for (std::size_t k = 0; k < order_.size(); ++k) order_[k] = static_cast<Site>(k);
}

void LowWidth::move(Spins& spins, int width, Lots& lots) {
    open(spins, width, lots);
    for (;;) {
        if (const Site i = next(width); i >= 0) {
            eliminate(i, lots);
        } else if (const Site j = crowded(); j >= 0) {
            hold(j, spin_[j]);
        } else {
            break;
        }
    }
    tell(spins);
}

bool LowWidth::solve(Spins& spins, int width, Lots& lots) {
    const Lots again = lots;
    open(spins, width, lots);
    for (Site i; (i = next(width)) >= 0;) {
        open_[i] = 0;
        take_out(i);
    }
    if (crowded() >= 0) return false;
    lots = again;  // the same order
    move(spins, width, lots);
    return true;
}

// Labels backwards, the last site eliminated first.
void LowWidth::tell(Spins& spins) {
    while (count_ > 0) {
        const Elimination& last = done_[--count_];
        std::size_t entry = 0;
        for (std::size_t b = 0; b < last.scope.size(); ++b) {
            entry |= static_cast<std::size_t>(spin_[last.scope[b]] < 0) << b;
        }
        spin_[last.site] = (last.labels[entry / 64] >> (entry % 64)) & 1 ? -1 : 1;
    }
    for (Site i = 0; i < spins.sites(); ++i) {
        if (spin_[i] != spins.spins()[i]) spins.flip(i);
    }
}

void LowWidth::open(const Spins& spins, int width, Lots& lots) {
    spin_ = spins.spins();
    count_ = 0;
    place_ = 0;
    for (std::size_t k = order_.size(); k > 1; --k) {
        std::swap(order_[k - 1], order_[lots.index(k)]);
    }
    const Site end = spins.sites();
    for (Site i = 0; i < end; ++i) {
        price_[i] = (*unary_)[i];
        open_[i] = std::abs((*unary_)[i]) != WholePairs::kDecided;
        around_[i].clear();
        tables_[i].clear();
    }
    for (Site i = 0; i < end; ++i) {
        const auto row = pairs_->row(i);
        pause_(8 + static_cast<Index>(row.size()));
        if (!open_[i]) continue;
        for (const auto& [step, weight] : row) {
            const Site j = i + step;
            if (open_[j]) {
                around_[i].push_back(j);
            } else {
                price_[i] += weight * spin_[j];
            }
        }
    }
    queues_.resize(static_cast<std::size_t>(width) + 1);
    for (auto& queue : queues_) queue.clear();
    for (const Site i : order_) {
        if (open_[i]) queue(i);
    }
    work_ += 2 * end + pairs_->arcs();
}

void LowWidth::queue(Site site) {
    const std::size_t number = around_[site].size();
    if (number < queues_.size()) queues_[number].push_back(site);
}

Site LowWidth::next(int width) {
    for (int number = 0; number <= width; ++number) {
        auto& queue = queues_[number];
        while (!queue.empty()) {
            const Site site = queue.back();
            queue.pop_back();
            if (open_[site] && around_[site].size() == static_cast<std::size_t>(number)) {
                return site;
            }
        }
    }
    return -1;
}

Site LowWidth::crowded() {
    while (place_ < order_.size() && !open_[order_[place_]]) ++place_;
    Site most = -1;
    int seen = 0;
    for (std::size_t k = place_; k < order_.size() && seen < kCandidates; ++k) {
        const Site i = order_[k];
        if (!open_[i]) continue;
        ++seen;
        if (most < 0 || around_[i].size() > around_[most].size()) most = i;
    }
    return most;
}

void LowWidth::detach(Site site, Site from) {
    auto& around = around_[from];
    const auto found = std::find(around.begin(), around.end(), site);
    *found = around.back();
    around.pop_back();
}

void LowWidth::hold(Site site, std::int8_t spin) {
    open_[site] = 0;
    const auto row = pairs_->row(site);
    for (const auto& [step, weight] : row) price_[site + step] += weight * spin;
    for (const Site j : around_[site]) {
        detach(site, j);
        queue(j);
    }
    work_ += static_cast<std::int64_t>(row.size());
}

// Its neighbors become neighbors of each other.
void LowWidth::take_out(Site site) {
    const auto& scope = around_[site];
    for (const Site a : scope) {
        detach(site, a);
        auto& around = around_[a];
        for (const Site b : scope) {
            if (b != a && std::find(around.begin(), around.end(), b) == around.end()) {
                around.push_back(b);
            }
        }
    }
    for (const Site a : scope) queue(a);
    const auto pairs = static_cast<Index>(scope.size() * scope.size());
    work_ += pairs;
    pause_(1 + pairs);
}

void LowWidth::eliminate(Site site, Lots& lots) {
    open_[site] = 0;
    if (count_ == done_.size()) done_.emplace_back();
    const auto number = static_cast<std::int32_t>(count_++);
    Elimination& made = done_[number];
    made.site = site;
    made.used = false;
    made.scope = around_[site];
    const auto& scope = made.scope;
    const std::size_t size = std::size_t{1} << scope.size();
    zero_.assign(size, 0);
    one_.assign(size, price_[site]);
    for (const auto& [step, weight] : pairs_->row(site)) {
        const auto found = std::find(scope.begin(), scope.end(), site + step);
        if (found == scope.end()) continue;
        const std::size_t bit = std::size_t{1} << (found - scope.begin());
        for (std::size_t k = 0; k < size; ++k) ((k & bit) != 0 ? zero_ : one_)[k] += weight;
    }
    for (const std::int32_t earlier : tables_[site]) {
        if (done_[earlier].used) continue;
        done_[earlier].used = true;
        add(done_[earlier], site, scope);
    }
    made.table.resize(size);
    made.labels.assign((size + 63) / 64, 0);
    const std::int64_t tie = static_cast<std::int64_t>(lots.bits() >> 63);  // of equals, either
    std::int64_t least = std::min(zero_[0], one_[0]);
    for (std::size_t k = 0; k < size; ++k) {
        const bool label = one_[k] < zero_[k] + tie;
        made.table[k] = label ? one_[k] : zero_[k];
        made.labels[k / 64] |= static_cast<std::uint64_t>(label) << (k % 64);
        least = std::min(least, made.table[k]);
    }
    for (auto& value : made.table) value -= least;
    for (const Site a : scope) tables_[a].push_back(number);
    take_out(site);
    work_ += static_cast<std::int64_t>(2 * size);
    pause_(static_cast<Index>(2 * size));
}

// An earlier table that holds the site, in the place of the new one's entries.
void LowWidth::add(const Elimination& earlier, Site site, const std::vector<Site>& scope) {
    // Where in the earlier table a bit of the new one counts; sites held count as they are.
    std::array<std::uint32_t, kMostWidth> places{};
    std::uint32_t first = 0, own = 0;
    for (std::size_t b = 0; b < earlier.scope.size(); ++b) {
        const auto place = std::uint32_t{1} << b;
        const Site j = earlier.scope[b];
        if (j == site) {
            own = place;
        } else if (open_[j]) {
            places[std::find(scope.begin(), scope.end(), j) - scope.begin()] = place;
        } else if (spin_[j] < 0) {
            first |= place;
        }
    }
    const std::size_t size = std::size_t{1} << scope.size();
    entry_.resize(size);
    entry_[0] = first;
    for (std::size_t k = 1; k < size; ++k) {
        entry_[k] = entry_[k & (k - 1)] | places[std::countr_zero(k)];
    }
    for (std::size_t k = 0; k < size; ++k) {
        zero_[k] += earlier.table[entry_[k]];
        one_[k] += earlier.table[entry_[k] | own];
    }
    work_ += static_cast<std::int64_t>(2 * size);
}

}  // namespace dope
