#include "whole_pairs.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>

#include "pause.h"

namespace dope {

namespace {

// The greatest sum of |weight| over a site's pairs is below twice 2^kStrengthBits: with kDecided on
// top, what a flip costs, and twice a weight more, stay below 2^31.
constexpr int kStrengthBits = 27;

// So many different rows are remembered; a graph may have one per site, and shares none.
constexpr std::size_t kMostRemembered = 4096;

using Row = std::vector<WholePairs::Arc>;

std::uint64_t digest(const Row& row) {
    std::uint64_t sum = row.size();
    for (const auto& [step, weight] : row) {
        sum = (sum ^ static_cast<std::uint32_t>(step)) * 0x9E3779B97F4A7C15u;
        sum = (sum ^ static_cast<std::uint32_t>(weight)) * 0xBF58476D1CE4E5B9u;
        sum ^= sum >> 29;
    }
    return sum;
}

// Pairs of a graph may be listed twice.
void merge(Row& row) {
    std::sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
    std::size_t last = 0;
    for (std::size_t k = 1; k < row.size(); ++k) {
        if (row[k].step == row[last].step) {
            row[last].weight += row[k].weight;
        } else {
            row[++last] = row[k];
        }
    }
    if (!row.empty()) row.resize(last + 1);
    std::erase_if(row, [](const auto& arc) { return arc.weight == 0 || arc.step == 0; });
}

}  // namespace

WholePairs::WholePairs(const Neighbors& neighbors) {
    if (neighbors.sites() > kMostSites) {
        throw std::invalid_argument("there are " + std::to_string(neighbors.sites()) +
                                    " sites: expected at most " + std::to_string(kMostSites));
    }
    neighbors.read([&](const auto& kind) { read(kind); });
}

template <class Kind>
void WholePairs::read(const Kind& neighbors) {
    const Index sites = neighbors.sites();
    Pause pause;
    double most = 0.0;
    for (Index i = 0; i < sites; ++i) {
        pause(16);
        double sum = 0.0;
        neighbors.visit(i, [&](Index, double w) { sum += std::abs(w); });
        most = std::max(most, sum);
    }
    // A power of two, so that whole numbers that fit stay what they are.
    if (most > 0.0)
        scale_ = std::ldexp(1.0, std::clamp(kStrengthBits - std::ilogb(most), -1000, 1000));
    first_.resize(static_cast<std::size_t>(sites));
    count_.resize(first_.size());
    strength_.resize(first_.size());
    std::unordered_multimap<std::uint64_t, Site> remembered;
    Row row;
    for (Index i = 0; i < sites; ++i) {
        row.clear();
        std::int32_t strength = 0;
        neighbors.visit(i, [&](Index j, double w) {
            const auto weight = static_cast<std::int32_t>(std::nearbyint(w * scale_));
            if (weight == 0) return;
            row.push_back({static_cast<Site>(j - i), weight});
            strength += std::abs(weight);
        });
        if constexpr (std::is_same_v<Kind, GraphNeighbors>) merge(row);
        pause(16 + static_cast<Index>(row.size()));
        count_[i] = static_cast<std::int32_t>(row.size());
        strength_[i] = strength;
        arc_count_ += count_[i];
        const auto same = [&](Site other) {
            return count_[other] == count_[i] &&
                   std::equal(row.begin(), row.end(), arcs_.begin() + first_[other],
                              [](const Arc& a, const Arc& b) {
                                  return a.step == b.step && a.weight == b.weight;
                              });
        };
        if (i > 0 && same(static_cast<Site>(i - 1))) {
            first_[i] = first_[i - 1];
            continue;
        }
        const std::uint64_t key = digest(row);
        const auto [low, high] = remembered.equal_range(key);
        const auto found =
            std::find_if(low, high, [&](const auto& one) { return same(one.second); });
        if (found != high) {
            first_[i] = first_[found->second];
            continue;
        }
        first_[i] = static_cast<Index>(arcs_.size());
        arcs_.insert(arcs_.end(), row.begin(), row.end());
        if (remembered.size() < kMostRemembered) remembered.emplace(key, static_cast<Site>(i));
    }
}

std::vector<std::int32_t> WholePairs::unary(const double* unary) const {
    std::vector<std::int32_t> whole(first_.size());
    Pause pause;
    for (std::size_t i = 0; i < whole.size(); ++i) {
        pause(1);
        const double value = unary[i] * scale_;
        const bool decided = std::abs(value) > strength_[i];
        whole[i] = decided ? (value > 0.0 ? kDecided : -kDecided)
                           : static_cast<std::int32_t>(std::nearbyint(value));
    }
    return whole;
}

double WholePairs::typical_change(const std::vector<std::int32_t>& unary) const {
    std::vector<std::int32_t> most;
    for (std::size_t i = 0; i < unary.size(); ++i) {
        const std::int32_t price = std::abs(unary[i]);
        if (price != kDecided && strength_[i] > 0) most.push_back(price + strength_[i]);
    }
    if (most.empty()) return 1.0;
    const auto middle = most.begin() + static_cast<std::ptrdiff_t>(most.size() / 2);
    std::nth_element(most.begin(), middle, most.end());
    return *middle;
}

}  // namespace dope
