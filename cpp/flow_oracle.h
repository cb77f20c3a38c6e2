// What a flow must answer, found the plain way: from a list of pairs with integer capacities.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "flow.h"

namespace dope {

struct Pair {
    std::size_t first;
    std::size_t second;
    std::int64_t capacity;
};

// Sums of a few thousand terms below 2^51 fit 64 bits.
struct PlainEnergy {
    std::size_t sites = 0;
    std::vector<Pair> pairs;
    double scale = 1.0;
    bool fits = true;  // false: the flow has to refuse it

    // Takes the weight of a pair, and notes whether it can be a capacity of this width.
    void add(std::size_t first, std::size_t second, double weight, std::int64_t most_capacity) {
        const double capacity = std::nearbyint(weight * scale);
        if (!(weight >= 0.0 && capacity <= static_cast<double>(most_capacity))) {
            fits = false;
            return;
        }
        pairs.push_back({first, second, static_cast<std::int64_t>(capacity)});
    }

    void require_sums(std::int64_t most_sum) {
        std::vector<std::int64_t> sums(sites, 0);
        for (const Pair& pair : pairs) {
            for (const std::size_t end : {pair.first, pair.second}) {
                sums[end] += pair.capacity;
                if (sums[end] > most_sum) fits = false;
            }
        }
    }

    // In units of 1 / scale, at most 2^50 of them.
    std::int64_t units(double unary) const {
        constexpr auto kMost = static_cast<double>(kMostUnary);
        return static_cast<std::int64_t>(std::nearbyint(std::clamp(unary * scale, -kMost, kMost)));
    }

    template <class Labels>
    std::int64_t energy_in_units(const std::vector<double>& unary, const Labels& labels) const {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < sites; ++i) sum += labels[i] ? units(unary[i]) : 0;
        for (const Pair& pair : pairs) {
            sum += labels[pair.first] != labels[pair.second] ? pair.capacity : 0;
        }
        return sum;
    }

    // Adds what 2^50 units per site leave out. Sites that want label 1 as much as that have it.
    void add_beyond(const std::vector<double>& unary, ExactSum& sum) const {
        for (const double u : unary) {
            if (u * scale >= -static_cast<double>(kMostUnary)) continue;
            sum.add(kMostUnary);
            // Doubles of 2^52 and more are whole.
            sum.add(u * scale > -0x1p52 ? std::nearbyint(u * scale) / scale : u, std::ilogb(scale));
        }
    }
};

struct Minimizers {
    std::vector<bool> smallest;
    std::vector<bool> largest;
};

// By looking at all labelings, of which there are 2^sites.
inline Minimizers brute_force(const PlainEnergy& plain, const std::vector<double>& unary) {
    Minimizers found;
    std::int64_t least = 0;
    for (std::uint64_t y = 0; y < std::uint64_t{1} << plain.sites; ++y) {
        std::vector<bool> labels(plain.sites);
        for (std::size_t i = 0; i < plain.sites; ++i) labels[i] = (y >> i) & 1U;
        const std::int64_t energy = plain.energy_in_units(unary, labels);
        if (y == 0 || energy < least) {
            least = energy;
            found = {labels, labels};
        } else if (energy == least) {
            for (std::size_t i = 0; i < plain.sites; ++i) {
                found.smallest[i] = found.smallest[i] && labels[i];
                found.largest[i] = found.largest[i] || labels[i];
            }
        }
    }
    return found;
}

// The pairs of a grid one by one: visit(offset's number, p, q, their places in row-major order).
template <class Visit>
void for_each_grid_pair(const Point& shape, const std::vector<Point>& offsets, Visit&& visit) {
    const Point strides = row_major_strides(shape);
    for (std::size_t m = 0; m < offsets.size(); ++m) {
        for_each_run(whole(shape), [&](Point p, Index length) {
            for (Index t = 0; t < length; ++t, ++p.back()) {
                Point q = p;
                bool inside = true;
                for (std::size_t a = 0; a < shape.size(); ++a) {
                    inside = inside && offsets[m][a] < shape[a] && offsets[m][a] > -shape[a];
                    if (inside) q[a] += offsets[m][a];
                    inside = inside && 0 <= q[a] && q[a] < shape[a];
                }
                if (inside) visit(m, p, q, dot(p, strides), dot(q, strides));
            }
        });
    }
}

}  // namespace dope
