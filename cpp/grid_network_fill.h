// How a GridNetwork gets its capacities: site by site from a table, where there can be one
// (LookUp), otherwise in short runs of sites (Filler). A run's weights are computed arc by arc into
// buffers that stay in the first cache, and written site by site, each once; those of arcs back to
// earlier sites are read there.
#pragma once

#include "capacity_table.h"
#include "grid_half.h"
#include "grid_network.h"

namespace dope {

template <class Store>
class GridNetwork<Store>::Filler {
  public:
    // For the planes from `lowest` on; earlier ones are others' to fill, and not read.
    Filler(GridNetwork& network, const GridWeights& weights, double scale, Index lowest)
        : network_(network),
          layout_(network.layout_),
          weights_(weights),
          scale_(scale),
          lowest_(lowest),
          run_(run_of_sites(layout_)),
          weight_(layout_.used.size() * static_cast<std::size_t>(run_)),
          spare_(static_cast<std::size_t>(run_)),
          sums_(static_cast<std::size_t>(run_)),
          capacities_(layout_.steps.size() * static_cast<std::size_t>(run_), 0) {
        for (const auto& use : layout_.used) {
            Way way{use.arc, use.offset, use.step, true, 0, 0, {}, nullptr};
            if (layout_.steps[static_cast<std::size_t>(use.arc)] < 0) {
                way.arc = layout_.opposite(use.arc);
                way.forth = false;
                for (Index& axis : way.step) axis = -axis;
            }
            ways_.push_back(way);
        }
    }

    // How many sites at a time.
    Index run() const { return run_; }

    void fill(const Point& first, Index length) {
        compute_weights(first, length);
        std::fill(sums_.begin(), sums_.end(), Sum{0});
        closed_.clear();
        auto open = network_.none_open();
        const auto place = static_cast<Site>(layout_.place(first));
        for (Way& way : ways_) {
            round(way, length);
            if (way.low < way.high) network_.insert(open, way.arc);
            turn_back(way, first, length);
            read_back(way, first, length);
            if (way.low < way.high) network_.insert(open, layout_.opposite(way.arc));
        }
        for (Index t = 0; t < length; ++t) {
            const Site v = place + static_cast<Site>(t);
            network_.set_open(v, open);
            Capacity* const residuals = network_.residuals(v);
            const Capacity* capacity = capacities_.data() + t;
            for (std::size_t m = 0; m < layout_.steps.size(); ++m, capacity += run_) {
                residuals[m] = *capacity;
            }
        }
        for (const auto& [t, arc] : closed_) network_.shut(place + static_cast<Site>(t), arc);
        require_sums(first, length);
    }

    Sum greatest_sum() const { return greatest_sum_; }

  private:
    // So that all buffers stay in the first cache.
    static Index run_of_sites(const GridLayout& layout) {
        constexpr Index kNumbers = 2048;
        const auto arcs = static_cast<Index>(std::max<std::size_t>(1, layout.steps.size()));
        return std::clamp<Index>(kNumbers / arcs, 64, 512);
    }

    // What leads from a site to one of its later neighbors.
    struct Way {
        Arc arc;
        std::size_t offset;  // the caller's
        Point step;
        bool forth;  // the caller counts the pair from the earlier site
        // Of the run at hand: the sites whose neighbor is inside; the first pair's tail, as the
        // caller counts; and the weights.
        Index low = 0;
        Index high = 0;
        Point tail;
        double* weights = nullptr;
    };

    Capacity* row(Arc m) { return &capacities_[static_cast<std::size_t>(m * run_)]; }

    void compute_weights(const Point& first, Index length) {
        double* end = weight_.data();
        for (Way& way : ways_) {
            place(way, first, length);
            way.weights = end;
            end += way.high - way.low;
            if (way.low == way.high) continue;
            weights_.begin_row(way.offset, way.tail, way.high - way.low, way.weights);
        }
        weights_.exponentials(weight_.data(), end - weight_.data());
    }

    void place(Way& way, const Point& first, Index length) const {
        find_inside(way, way.step, first, length);
        way.tail = first;
        way.tail.back() += way.low;
        if (way.forth) return;
        for (std::size_t a = 0; a < first.size(); ++a) way.tail[a] += way.step[a];
    }

    void find_inside(Way& way, const Point& step, const Point& first, Index length) const {
        const std::size_t last = first.size() - 1;
        bool inside = true;
        for (std::size_t a = 0; a < last; ++a) {
            const Index there = first[a] + step[a];
            inside &= 0 <= there && there < layout_.shape[a];
        }
        const Index beyond = layout_.shape[last] - first[last];
        way.low = std::clamp<Index>(-step[last] - first[last], 0, length);
        way.high = std::clamp<Index>(beyond - step[last], way.low, length);
        if (!inside) way.high = way.low = 0;
    }

    // The arc back to the earlier neighbor.
    void turn_back(Way& way, const Point& first, Index length) {
        back_ = way.step;
        for (Index& axis : back_) axis = -axis;
        find_inside(way, back_, first, length);
    }

    // A row of capacities of the arc back, which are those of the arcs towards these sites.
    void read_back(const Way& way, const Point& first, Index length) {
        const Arc arc = layout_.opposite(way.arc);
        Capacity* const out = row(arc);
        std::fill(out, out + way.low, Capacity{0});
        std::fill(out + way.high, out + length, Capacity{0});
        if (way.low == way.high) return;
        const Index known = compute_back(way, first, out);
        const Index step = layout_.steps[static_cast<std::size_t>(way.arc)];
        const Index here = std::clamp(step, known, way.high);  // from here on, in this run
        auto earlier = static_cast<Site>(layout_.place(first) + known - step);
        for (Index t = known; t < here; ++t) out[t] = network_.residual(earlier++, way.arc);
        std::copy(row(way.arc) + (here - step), row(way.arc) + (way.high - step), out + here);
        add(way, arc, length);
    }

    // Those towards sites of other planes than ours; returns where ours begin.
    Index compute_back(const Way& way, const Point& first, Capacity* out) {
        Index known = way.low;
        if (first.size() == 1) {
            known = std::clamp(lowest_ - back_[0] - first[0], way.low, way.high);
        } else if (first[0] + back_[0] < lowest_) {
            known = way.high;
        }
        if (known == way.low) return known;
        Point tail = first;
        tail.back() += way.low;
        if (way.forth) {
            for (std::size_t a = 0; a < tail.size(); ++a) tail[a] += back_[a];
        }
        weights_.row(way.offset, tail, known - way.low, spare_.data());
        constexpr auto kMost = static_cast<double>(Width<Capacity>::kMostCapacity);
        // One that does not fit is refused where it belongs.
        static_cast<void>(
            round_weights(spare_.data(), known - way.low, scale_, kMost, out + way.low));
        return known;
    }

    // A row of capacities from a row of weights; 0 where there is none.
    void round(const Way& way, Index length) {
        Capacity* const out = row(way.arc);
        std::fill(out, out + way.low, Capacity{0});
        std::fill(out + way.high, out + length, Capacity{0});
        const Index count = way.high - way.low;
        if (count == 0) return;
        weights_.end_row(way.offset, way.tail, count, way.weights);
        constexpr auto kMost = static_cast<double>(Width<Capacity>::kMostCapacity);
        if (!round_weights(way.weights, count, scale_, kMost, out + way.low)) refuse(way);
        add(way, way.arc, length);
    }

    void add(const Way& way, Arc arc, Index length) {
        const Capacity* const out = row(arc);
        const bool all_open = add_capacities(out + way.low, way.high - way.low,
                                             &sums_[static_cast<std::size_t>(way.low)]);
        // Arcs are open both ways or not at all: not where the weight is 0 or the neighbor outside.
        if (all_open && way.high - way.low == length) return;
        for (Index t = 0; t < length; ++t) {
            if (out[t] == 0) closed_.push_back({t, arc});
        }
    }

    [[noreturn]] void refuse(const Way& way) const {
        Point p = way.tail;
        for (Index t = 0; t < way.high - way.low; ++t, ++p.back()) {
            if (capacity_or_minus_one<Capacity>(way.weights[t], scale_) >= 0.0) continue;
            refuse_weight<Capacity>(
                way.weights[t], scale_,
                "at site " + text(p) + ", offset " + text(weights_.offsets()[way.offset]));
        }
        throw std::logic_error("a weight was refused that fits");
    }

    void require_sums(const Point& first, Index length) {
        for (Index t = 0; t < length; ++t) {
            const Sum sum = sums_[static_cast<std::size_t>(t)];
            if (sum <= greatest_sum_) continue;
            Point site = first;
            site.back() += t;
            require_sum<Capacity>(sum, "of site " + text(site));
            greatest_sum_ = sum;
        }
    }

    struct Closed {
        Index t;
        Arc arc;
    };

    GridNetwork& network_;
    const GridLayout& layout_;
    const GridWeights& weights_;
    double scale_;
    Index lowest_;
    Index run_;
    std::vector<Way> ways_;
    std::vector<double> weight_;        // of all ways, one after another
    std::vector<double> spare_;         // of a row towards other planes
    Point back_;                        // the step of the way at hand, turned round
    std::vector<Sum> sums_;             // per site
    std::vector<Capacity> capacities_;  // a row per arc
    std::vector<Closed> closed_;
    Sum greatest_sum_ = 0;
};

template <class Store>
class GridNetwork<Store>::LookUp {
  public:
    LookUp(GridNetwork& network, CapacityTable table)
        : network_(network),
          table_(std::move(table)),
          all_open_(network.none_open()),
          numbers_(static_cast<std::size_t>(run()) * network.layout_.steps.size(), 0) {
        for (const auto& use : network_.layout_.used) {
            network_.insert(all_open_, use.arc);
            network_.insert(all_open_, network_.layout_.opposite(use.arc));
        }
    }

    // How many sites at a time, so that the buffer stays in the first cache.
    Index run() const {
        const auto arcs = static_cast<Index>(network_.layout_.steps.size());
        return std::clamp<Index>(4096 / arcs, 8, CapacityTable::kRun);
    }
    Index planes() const { return table_.planes(); }
    void open(Index low, Index high) { table_.open(low, high); }

    void fill(const Point& first, Index length) {
        const auto place = static_cast<Site>(network_.layout_.place(first));
        table_.look_up(place, length, numbers_.data());
        for (Index t = 0; t < length; ++t) {
            const Site v = place + static_cast<Site>(t);
            const Arc arcs = network_.degree(v);
            const auto* const from = &numbers_[static_cast<std::size_t>(t * arcs)];
            Capacity* const residuals = network_.residuals(v);
            std::int64_t sum = 0;
            auto least = from[0];
            for (Arc m = 0; m < arcs; ++m) {
                residuals[m] = static_cast<Capacity>(from[m]);
                sum += from[m];
                least = std::min(least, from[m]);
            }
            network_.set_open(v, all_open_);
            for (Arc m = 0; m < arcs && least == 0; ++m) {
                if (from[m] == 0) network_.shut(v, m);
            }
            if (sum > greatest_sum_) raise(sum, first, t);
        }
    }

    std::int64_t greatest_sum() const { return greatest_sum_; }

  private:
    void raise(std::int64_t sum, Point site, Index t) {
        site.back() += t;
        require_sum<Capacity>(sum, "of site " + text(site));
        greatest_sum_ = sum;
    }

    GridNetwork& network_;
    CapacityTable table_;
    typename Store::OpenSet all_open_;
    std::vector<CapacityTable::Number> numbers_;
    std::int64_t greatest_sum_ = 0;
};

template <class Store>
typename GridNetwork<Store>::Excess GridNetwork<Store>::fill_planes(const GridWeights& weights,
                                                                    double scale, Index low,
                                                                    Index high, const Poll& poll) {
    require_scale(scale);
    const auto capacities =
        (high - low) * layout_.strides[0] * static_cast<Index>(layout_.steps.size());
    auto table =
        CapacityTable::of(weights, layout_, scale, Width<Capacity>::kMostCapacity, capacities);
    const Index stride = layout_.strides[0];
    Index freed = low == 0 ? 0 : layout_.first + low * stride;
    const auto free_to = [&](Index end) {  // just before it is filled, so that it is in the cache
        if (end > freed) this->free_all(static_cast<Site>(freed), static_cast<Site>(end));
        freed = std::max(freed, end);
    };
    // Padding has no capacities and is never written to: it stays as it was at first, empty.
    const auto fill_runs = [&](auto& filler, Index from, Index to, Index run) {
        Box planes = whole(layout_.shape);
        planes.low[0] = from;
        planes.high[0] = to;
        for_each_run(
            planes,
            [&](const Point& first, Index length) {
                if (poll && poll()) throw Interrupted();
                free_to(layout_.place(first) + length);
                filler.fill(first, length);
            },
            run);
    };
    std::int64_t greatest = 0;
    if (table) {
        LookUp look_up(*this, std::move(*table));
        for (Index from = low; from < high; from += look_up.planes()) {
            const Index to = std::min(high, from + look_up.planes());
            look_up.open(from, to);
            fill_runs(look_up, from, to, look_up.run());
        }
        greatest = look_up.greatest_sum();
    } else {
        Filler filler(*this, weights, scale, low);
        fill_runs(filler, low, high, filler.run());
        greatest = filler.greatest_sum();
    }
    free_to(high == layout_.shape[0] ? layout_.sites : layout_.first + high * stride);
    return static_cast<Excess>(greatest);
}

template <class Store>
Site GridNetwork<Store>::place(std::size_t i) const {
    auto rest = static_cast<Index>(i);
    Index place = layout_.first;
    for (std::size_t a = layout_.shape.size(); a-- > 0;) {
        place += rest % layout_.shape[a] * layout_.strides[a];
        rest /= layout_.shape[a];
    }
    return static_cast<Site>(place);
}

}  // namespace dope
