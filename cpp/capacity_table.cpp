#include "capacity_table.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "portable_exp.h"
#include "wide_vectors.h"

namespace dope {

namespace {

using Number = CapacityTable::Number;

// Further away from all pixels than any of them from another; differences fit Number all the same.
constexpr Number kOutside = Number{1} << 20;
// With one channel |x_p - x_q| is looked up, with more the sum of squares.
constexpr double kMostEntries = 1 << 20;
constexpr Index kMostChannels = 64;  // whose squares, of up to about kMostEntries, Number can add
constexpr Index kMostPixels = Index{1} << 18;

// How far apart the pixels from p on and those from q on are, in a table's numbers.
struct Distance {
    Index channel;  // from one channel to the next
    Index channels;
    Number most;  // further apart in one channel is as far
    Number top;   // further apart is as far
};

// kChannels = 0: as many as there are.
template <int kChannels>
inline void measure(const Distance& distance, const Number* p, const Number* q, Index length,
                    Number* out) {
    const Index channels = kChannels == 0 ? distance.channels : kChannels;
    for (Index t = 0; t < length; ++t) {
        Number sum = 0;
        for (Index c = 0; c < channels; ++c) {
            const Number difference =
                std::abs(p[c * distance.channel + t] - q[c * distance.channel + t]);
            const Number near = std::min(difference, distance.most);
            sum += kChannels == 1 ? near : near * near;
        }
        out[t] = std::min(sum, distance.top);
    }
}

// Attributes that choose a processor do not reach templates.
DOPE_WIDE_VECTORS void measure_one(const Distance& distance, const Number* p, const Number* q,
                                   Index length, Number* out) {
    measure<1>(distance, p, q, length, out);
}
DOPE_WIDE_VECTORS void measure_three(const Distance& distance, const Number* p, const Number* q,
                                     Index length, Number* out) {
    measure<3>(distance, p, q, length, out);
}
void measure_any(const Distance& distance, const Number* p, const Number* q, Index length,
                 Number* out) {
    measure<0>(distance, p, q, length, out);
}

// How far apart two pixels can be: as |x_p - x_q| in one channel, as the sum of squares in more.
std::optional<double> furthest_apart(const Features& features) {
    return std::visit(
        [&](const auto& values) -> std::optional<double> {
            using Pixel = std::remove_cvref_t<decltype(*values.start)>;
            if constexpr (!std::is_integral_v<Pixel>) {
                return std::nullopt;
            } else {
                constexpr double kMost = std::numeric_limits<std::make_unsigned_t<Pixel>>::max();
                return features.channels == 1
                           ? kMost
                           : kMost * kMost * static_cast<double>(features.channels);
            }
        },
        features.values);
}

}  // namespace

std::optional<CapacityTable> CapacityTable::of(const GridWeights& weights, const GridLayout& layout,
                                               double scale, std::int64_t most, Index worth) {
    const Features* const features = weights.contrast_only();
    if (!features || features->channels > kMostChannels || !(features->beta >= 0.0)) return {};
    if (layout.used.empty() || most > std::numeric_limits<Number>::max()) return {};
    const std::optional<double> furthest = furthest_apart(*features);
    if (!furthest) return {};

    std::vector<double> factors;
    for (const auto& use : layout.used) {
        const double factor = weights.factors()[use.offset];
        // Those that are refused, NaN among them, are left to who can say so.
        if (!(factor >= 0.0 && factor * scale <= static_cast<double>(most))) return {};
        factors.push_back(factor);
    }
    std::sort(factors.begin(), factors.end());
    factors.erase(std::unique(factors.begin(), factors.end()), factors.end());
    const double greatest = factors.back() * scale;

    // Behind exp(-beta d) * greatest = 1/4 all capacities are 0.
    const double far = std::log(std::max(1.0, 4.0 * greatest)) / features->beta;
    const bool one_channel = features->channels == 1;
    const double top = std::min(one_channel ? std::sqrt(far) : far, *furthest) + 2.0;
    const double entries = top * static_cast<double>(factors.size());
    // A beta of -0.0 makes them infinitely few.
    if (!(entries > 0.0 && entries <= std::min(kMostEntries, static_cast<double>(worth))))
        return {};

    CapacityTable table(weights, layout);
    table.top_ = static_cast<Number>(top);
    table.most_ = one_channel ? table.top_ : static_cast<Number>(std::sqrt(top)) + 1;
    table.compute(factors, scale);
    table.planes_ = std::max<Index>(1, kMostPixels / (layout.strides[0] * features->channels));
    return table;
}

void CapacityTable::compute(const std::vector<double>& factors, double scale) {
    const Features& features = *weights_.contrast_only();
    const auto size = static_cast<std::size_t>(top_) + 1;
    numbers_.assign(size * factors.size(), 0);
    for (Number d = 0; d < top_; ++d) {
        const double number = d;
        const double squared = features.channels == 1 ? number * number : number;
        const double fall = portable_exp(-features.beta * squared);
        for (std::size_t f = 0; f < factors.size(); ++f) {
            numbers_[f * size + static_cast<std::size_t>(d)] =
                static_cast<Number>(nearest(fall * factors[f] * scale));
        }
    }
    for (const auto& use : layout_.used) {
        const auto factor =
            std::lower_bound(factors.begin(), factors.end(), weights_.factors()[use.offset]);
        const auto begin = static_cast<std::size_t>(factor - factors.begin()) * size;
        for (const Arc arc : {use.arc, layout_.opposite(use.arc)}) {
            ways_.push_back({arc, layout_.steps[static_cast<std::size_t>(arc)], begin});
        }
    }
}

void CapacityTable::open(Index low, Index high) {
    const Features& features = *weights_.contrast_only();
    const Index reach =
        layout_.steps.back();  // the steps rise, and the least is minus the greatest
    const Index stride = layout_.strides[0];
    origin_ = layout_.first + low * stride - reach;
    channel_ = (high - low) * stride + 2 * reach;
    pixels_.assign(static_cast<std::size_t>(channel_ * features.channels), kOutside);
    Index planes = 0;  // that neighbors are away
    for (const auto& use : layout_.used) planes = std::max(planes, std::abs(use.step[0]));
    Box box = whole(layout_.shape);
    box.low[0] = std::max<Index>(0, low - planes);
    box.high[0] = std::min(layout_.shape[0], high + planes);
    const std::optional<MaskView>& inside = weights_.inside();
    std::visit(
        [&](const auto& values) {
            for_each_run(
                box,
                [&](const Point& first, Index length) {
                    const Index step = values.strides[first.size() - 1];
                    const auto* const from = values.at(first);
                    // Of the outermost planes no step may lead to some pixels.
                    const Index at = layout_.place(first) - origin_;
                    const Index begin = std::max<Index>(0, -at);
                    const Index end = std::min(length, channel_ - at);
                    for (Index c = 0; c < features.channels; ++c) {
                        Number* const to = &pixels_[static_cast<std::size_t>(c * channel_)];
                        const auto* const pixel = from + c * values.strides.back();
                        for (Index t = begin; t < end; ++t) {
                            to[at + t] = static_cast<Number>(pixel[t * step]);
                        }
                        if (!inside) continue;
                        const std::uint8_t* const here = inside->at(first);
                        for (Index t = begin; t < end; ++t) {
                            if (here[t * inside->strides.back()] == 0) to[at + t] = kOutside;
                        }
                    }
                },
                layout_.shape.back());
        },
        features.values);
}

void CapacityTable::look_up(Index place, Index length, Number* out) const {
    const Features& features = *weights_.contrast_only();
    const Distance distance{channel_, features.channels, most_, top_};
    const auto measure_row = features.channels == 1   ? measure_one
                             : features.channels == 3 ? measure_three
                                                      : measure_any;
    const Number* const p = pixels_.data() + (place - origin_);
    const std::size_t width = layout_.steps.size();
    Number apart[kRun];
    for (const Way& way : ways_) {
        measure_row(distance, p, p + way.step, length, apart);
        const Number* const numbers = numbers_.data() + way.numbers;
        Number* to = out + way.arc;
        for (Index t = 0; t < length; ++t, to += width) *to = numbers[apart[t]];
    }
    if (!weights_.inside()) return;
    // Outside the mask pixels are all alike, those of the padding included: none of them has pairs.
    for (Index t = 0; t < length; ++t) {
        if (p[t] == kOutside) std::fill_n(out + static_cast<std::size_t>(t) * width, width, 0);
    }
}

}  // namespace dope
