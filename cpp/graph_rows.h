// The pairs of a sparse graph by sites, and an order of sites in which neighbors are near.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capacities.h"
#include "flow.h"
#include "pause.h"

namespace dope {

inline void require_edge(std::int64_t sites, std::size_t e, Vertex first, Vertex second) {
    for (const Vertex end : {first, second}) {
        if (end >= 0 && end < sites) continue;
        throw std::invalid_argument("edge " + std::to_string(e) + " ends at site " +
                                    std::to_string(end) + ": expected 0 to " +
                                    std::to_string(sites - 1));
    }
    if (first == second) {
        throw std::invalid_argument("edge " + std::to_string(e) + " joins site " +
                                    std::to_string(first) + " to itself: expected two sites");
    }
}

// Whether most neighbors are near each other as they are numbered; refuses edges that are none.
inline bool near_already(std::int64_t sites, Ends ends, std::size_t pairs) {
    constexpr Vertex kNear = 1 << 12;
    constexpr std::int64_t kSmall = 1 << 14;
    std::size_t far = 0;
    in_pieces(static_cast<std::int64_t>(pairs), [&](std::int64_t low, std::int64_t high) {
        for (auto e = static_cast<std::size_t>(low); e < static_cast<std::size_t>(high); ++e) {
            require_edge(sites, e, ends.first(e), ends.second(e));
            far += std::abs(ends.first(e) - ends.second(e)) > kNear;
        }
    });
    return sites < kSmall || 4 * far < pairs;
}

inline void prefetch([[maybe_unused]] const void* place) {
#if defined(__GNUC__)
    __builtin_prefetch(place);
#endif
}
// So many sites ahead.
inline constexpr std::size_t kAhead = 8;

// The pairs of every site: half a pair with each of its ends, those that have the site second
// before those that have it first, and otherwise in the order of the caller's pairs. Pairs are
// undirected and between different sites.
template <class Capacity>
struct GraphRows {
    struct Half {
        Site head;
        Capacity capacity;
    };

    static constexpr std::int64_t kMost = kMostSites - 2;
    // Two to the power of so many stretches of memory are written to by turns.
    static constexpr int kBuckets = 9;

    // for_each(visit): visit(edge, site, other site, weight) of `pairs` pairs, the same each time.
    template <class ForEach>
    GraphRows(std::int64_t sites, std::size_t pairs, double scale, ForEach&& for_each)
        : begins(checked(sites) + 1, 0),
          number(2 * pairs),
          halves(std::make_unique_for_overwrite<Half[]>(number)) {
        require_scale(scale);
        // First sites mostly come in order. The halves of second sites are brought near their
        // places first: written one by one to where they belong, most would miss the cache.
        const int shift = std::max(0, static_cast<int>(std::bit_width(begins.size())) - kBuckets);
        std::vector<std::size_t> bucket((begins.size() >> shift) + 2, 0);
        Pause pause;
        for_each([&](std::size_t, Site i, Site j, double) {
            pause(2);
            ++begins[index(i) + 1];
            ++bucket[(index(j) >> shift) + 1];
        });
        for (std::size_t k = 1; k < bucket.size(); ++k) bucket[k] += bucket[k - 1];
        const auto seconds = std::make_unique_for_overwrite<Second[]>(pairs);
        for_each([&](std::size_t e, Site i, Site j, double weight) {
            pause(4);
            const double capacity = capacity_or_minus_one<Capacity>(weight, scale);
            if (capacity < 0.0) {
                refuse_weight<Capacity>(weight, scale, "of edge " + std::to_string(e));
            }
            seconds[bucket[index(j) >> shift]++] = {j, {i, static_cast<Capacity>(capacity)}};
        });
        for (std::size_t k = 0; k < pairs; ++k) ++begins[index(seconds[k].site) + 1];
        for (std::size_t v = 1; v < begins.size(); ++v) begins[v] += begins[v - 1];
        std::vector<std::size_t> next(begins.begin(), begins.end() - 1);
        for (std::size_t k = 0; k < pairs; ++k) {
            pause(2);
            halves[next[index(seconds[k].site)]++] = seconds[k].half;
        }
        for_each([&](std::size_t, Site i, Site j, double weight) {
            pause(4);
            const double capacity = capacity_or_minus_one<Capacity>(weight, scale);
            halves[next[index(i)]++] = {j, static_cast<Capacity>(capacity)};
        });
    }

    // To be written.
    GraphRows(std::int64_t sites, std::size_t halves_number)
        : begins(checked(sites) + 1, 0),
          number(halves_number),
          halves(std::make_unique_for_overwrite<Half[]>(number)) {}

    // Ask for what will be read soon; where a row begins has to be there for the row.
    void fetch_begin(Site v) const { prefetch(begins.data() + index(v)); }
    void fetch(Site v) const { prefetch(halves.get() + begins[index(v)]); }

    Site sites() const { return static_cast<Site>(begins.size() - 1); }
    std::pair<std::size_t, std::size_t> of(Site v) const {
        return {begins[static_cast<std::size_t>(v)], begins[static_cast<std::size_t>(v) + 1]};
    }

    std::vector<std::size_t> begins;  // where a site's halves begin, and where all end
    std::size_t number;
    std::unique_ptr<Half[]> halves;

    static std::size_t checked(std::int64_t sites) {
        if (sites < 0 || sites > kMost) {
            throw std::invalid_argument("the graph has " + std::to_string(sites) +
                                        " sites: expected 0 to " + std::to_string(kMost));
        }
        return static_cast<std::size_t>(sites);
    }

  private:
    struct Second {
        Site site;
        Half half;
    };

    static std::size_t index(Site v) { return static_cast<std::size_t>(v); }
};

// Where sites are kept, and whose places are whose; nothing where all stay where they are.
class SiteOrder {
  public:
    SiteOrder() = default;
    // By the sites in their order, and by their places.
    SiteOrder(std::vector<Site> callers, std::vector<Site> places)
        : callers_(std::move(callers)), places_(std::move(places)) {}

    bool moves() const { return !callers_.empty(); }
    const Site* callers() const { return moves() ? callers_.data() : nullptr; }
    Site caller(Site place) const {
        return moves() ? callers_[static_cast<std::size_t>(place)] : place;
    }
    Site place(Site caller) const {
        return moves() ? places_[static_cast<std::size_t>(caller)] : caller;
    }
    std::size_t bytes() const { return 2 * callers_.size() * sizeof(Site); }

  private:
    std::vector<Site> callers_;
    std::vector<Site> places_;
};

// Rows in an order in which most neighbors are near each other, so that what a search looks at is
// in the cache: breadth first. Their heads are places in it.
template <class Capacity>
struct NearRows {
    SiteOrder order;
    GraphRows<Capacity> rows;

    explicit NearRows(const GraphRows<Capacity>& from) : rows(from.sites(), from.number) {
        std::vector<Site> callers;
        std::vector<Site> places(from.begins.size(), -1);
        callers.reserve(from.begins.size());
        const auto enlist = [&](Site v) {
            Site& place = places[static_cast<std::size_t>(v)];
            if (place < 0) {
                place = static_cast<Site>(callers.size());
                callers.push_back(v);
                from.fetch_begin(v);
            }
            return place;
        };
        Pause pause;
        std::size_t next = 0;
        std::size_t to = 0;
        for (Site root = 0; root < from.sites(); ++root) {
            enlist(root);
            for (; next < callers.size(); ++next) {
                if (next + kAhead < callers.size()) from.fetch(callers[next + kAhead]);
                const auto [begin, end] = from.of(callers[next]);
                pause(static_cast<std::int64_t>(8 + 2 * (end - begin)));
                rows.begins[next] = to;
                for (std::size_t k = begin; k < end; ++k) {
                    rows.halves[to++] = {enlist(from.halves[k].head), from.halves[k].capacity};
                }
            }
        }
        rows.begins[next] = to;
        order = SiteOrder(std::move(callers), std::move(places));
    }
};

}  // namespace dope
