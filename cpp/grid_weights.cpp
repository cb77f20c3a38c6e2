#include "grid_weights.h"

#include "pause.h"
#include "portable_exp.h"
#include "wide_vectors.h"

namespace dope {

namespace {

template <class T>
inline double squared_difference(T a, T b) {
    const double difference = static_cast<double>(a) - static_cast<double>(b);
    return difference * difference;
}

// Integers below 2^53 are the same in double, and of bytes twice as fast to compute.
inline std::int32_t squared_difference(std::uint8_t a, std::uint8_t b) {
    const std::int32_t difference = a - b;
    return difference * difference;
}

// Squared distances of `length` pixels of kChannels numbers each, which follow one another.
template <int kChannels, class T>
inline void packed_distances(const T* p, const T* q, Index length, double* out) {
    for (Index t = 0; t < length; ++t) {
        auto sum = squared_difference(p[t * kChannels], q[t * kChannels]);
        for (int c = 1; c < kChannels; ++c) {
            sum += squared_difference(p[t * kChannels + c], q[t * kChannels + c]);
        }
        out[t] = sum;
    }
}

// Attributes that choose a processor do not reach templates: one function for each type of pixel.
#define DOPE_PACKED(T)                                                                         \
    DOPE_WIDE_VECTORS void one_channel(const T* p, const T* q, Index length, double* out) {    \
        packed_distances<1>(p, q, length, out);                                                \
    }                                                                                          \
    DOPE_WIDE_VECTORS void three_channels(const T* p, const T* q, Index length, double* out) { \
        packed_distances<3>(p, q, length, out);                                                \
    }
DOPE_PACKED(std::uint8_t)
DOPE_PACKED(std::uint16_t)
DOPE_PACKED(std::int16_t)
DOPE_PACKED(float)
DOPE_PACKED(double)
#undef DOPE_PACKED

// Replaces each squared distance by exp(minus_beta * squared distance).
DOPE_WIDE_VECTORS void falling(double* out, Index length, double minus_beta) {
    for (Index t = 0; t < length; ++t) out[t] = portable_exp(minus_beta * out[t]);
}

// Squared distances of the pixels `places[k] * step` away from p and q. kChannels = 0: as many as
// `channels` says.
template <int kChannels, class T>
void scattered_distances(const T* p, const T* q, const View<T>& values, Index channels,
                         std::span<const Index> places, double* out) {
    const Index step = values.strides[values.strides.size() - 2];
    const Index channel = values.strides.back();
    const Index number = kChannels == 0 ? channels : kChannels;
    for (const Index place : places) {
        const Index k = place * step;
        double sum = 0.0;
        for (Index c = 0; c < number; ++c) {
            sum += squared_difference(p[k + c * channel], q[k + c * channel]);
        }
        *out++ = sum;
    }
}

}  // namespace

void squared_distances(const Features& features, const Point& first, const Point& offset,
                       Index length, double* out) {
    std::visit(
        [&](const auto& values) {
            const Index step = values.strides[first.size() - 1];
            const Index channel = values.strides.back();
            const auto* p = values.at(first);
            const auto* q = p + values.distance(offset);
            if (features.channels == 1 && step == 1) return one_channel(p, q, length, out);
            if (features.channels == 3 && step == 3 && channel == 1) {
                return three_channels(p, q, length, out);
            }
            for (Index t = 0; t < length; ++t) {
                double sum = 0.0;
                for (Index c = 0; c < features.channels; ++c) {
                    const Index k = t * step + c * channel;
                    sum += squared_difference(p[k], q[k]);
                }
                out[t] = sum;
            }
        },
        features.values);
}

GridWeights::GridWeights(Point shape, std::vector<Point> offsets, std::vector<double> factors,
                         std::optional<Features> features, std::vector<RealView> fields,
                         std::vector<std::vector<double>> counts, std::optional<MaskView> inside,
                         std::optional<Fused> fused, std::vector<int> signs)
    : shape_(std::move(shape)),
      offsets_(std::move(offsets)),
      factors_(std::move(factors)),
      features_(std::move(features)),
      fields_(std::move(fields)),
      counts_(std::move(counts)),
      inside_(std::move(inside)),
      fused_(std::move(fused)),
      signs_(std::move(signs)) {}

void GridWeights::row(std::size_t m, const Point& first, Index length, double* out) const {
    begin_row(m, first, length, out);
    exponentials(out, length);
    end_row(m, first, length, out);
}

void GridWeights::begin_row(std::size_t m, const Point& first, Index length, double* out) const {
    if (features_) squared_distances(*features_, first, offsets_[m], length, out);
}

void GridWeights::exponentials(double* out, Index length) const {
    if (features_) falling(out, length, -features_->beta);
}

void GridWeights::end_row(std::size_t m, const Point& first, Index length, double* out) const {
    const double factor = factors_[m];
    if (features_) {
        for (Index t = 0; t < length; ++t) out[t] *= factor;
    } else {
        std::fill_n(out, length, factor);
    }
    if (!fields_.empty()) {
        std::visit(
            [&](const auto& field) {
                const Index step = field.strides.back();
                const auto* values = field.at(first);
                for (Index t = 0; t < length; ++t) {
                    out[t] *= static_cast<double>(values[t * step]);
                }
            },
            fields_[m]);
    }
    if (!counts_.empty()) {
        const auto [p, q] = row_counts(m, first);
        for (Index t = 0; t < length; ++t) out[t] /= p.at(t) * q.at(t);
    }
    if (fused_) fused_->multiply(first, offsets_[m], length, out);
    keep_sign(m, length, out);
    if (inside_) {
        const Index step = inside_->strides.back();
        const std::uint8_t* p = inside_->at(first);
        const std::uint8_t* q = p + inside_->distance(offsets_[m]);
        for (Index t = 0; t < length; ++t) {
            if (p[t * step] == 0 || q[t * step] == 0) out[t] = 0.0;
        }
    }
}

void GridWeights::keep_sign(std::size_t m, Index length, double* out) const {
    if (signs_.empty() || signs_[m] == 0) return;
    const double sign = signs_[m];
    for (Index t = 0; t < length; ++t) out[t] = std::max(sign * out[t], 0.0);
}

std::pair<GridWeights::RowCounts, GridWeights::RowCounts> GridWeights::row_counts(
    std::size_t m, const Point& first) const {
    const std::size_t last = shape_.size() - 1;
    RowCounts p{1.0, counts_[last].data() + first[last]};
    RowCounts q{1.0, p.along + offsets_[m][last]};
    for (std::size_t a = 0; a < last; ++a) {
        p.across *= counts_[a][static_cast<std::size_t>(first[a])];
        q.across *= counts_[a][static_cast<std::size_t>(first[a] + offsets_[m][a])];
    }
    return {p, q};
}

void ScatteredWeights::put(std::size_t m, const Point& first, const Index* places, Index count) {
    const auto end = static_cast<std::size_t>(size_ + count);
    if (values_.size() < end) values_.resize(end);
    if (weights_.features_) {
        const Features& features = *weights_.features_;
        const std::span<const Index> here(places, static_cast<std::size_t>(count));
        double* out = values_.data() + size_;
        std::visit(
            [&](const auto& values) {
                const auto* p = values.at(first);
                const auto* q = p + values.distance(weights_.offsets_[m]);
                const Index channels = features.channels;
                if (channels == 1) return scattered_distances<1>(p, q, values, 1, here, out);
                if (channels == 3) return scattered_distances<3>(p, q, values, 3, here, out);
                scattered_distances<0>(p, q, values, channels, here, out);
            },
            features.values);
    }
    if (!weights_.fields_.empty()) {
        if (fields_.size() < end) fields_.resize(end);
        std::visit(
            [&](const auto& field) {
                const Index step = field.strides.back();
                const auto* from = field.at(first);
                double* out = fields_.data() + size_;
                for (Index k = 0; k < count; ++k) {
                    out[k] = static_cast<double>(from[places[k] * step]);
                }
            },
            weights_.fields_[m]);
    }
    if (!weights_.counts_.empty()) {
        if (divisors_.size() < end) divisors_.resize(end);
        put_counts(m, first, places, count);
    }
    if (weights_.fused_) {
        if (fusions_.size() < end) fusions_.resize(end);
        const std::span<const Index> here(places, static_cast<std::size_t>(count));
        weights_.fused_->look_up(first, weights_.offsets_[m], here, fusions_.data() + size_);
    }
    if (weights_.inside_) {
        if (kept_.size() < end) kept_.resize(end);
        const MaskView& inside = *weights_.inside_;
        const std::uint8_t* p = inside.at(first);
        const std::uint8_t* q = p + inside.distance(weights_.offsets_[m]);
        for (Index k = 0; k < count; ++k) {
            const Index t = places[k] * inside.strides.back();
            kept_[static_cast<std::size_t>(size_ + k)] = p[t] != 0 && q[t] != 0;
        }
    }
    size_ += count;
}

void ScatteredWeights::put_counts(std::size_t m, const Point& first, const Index* places,
                                  Index count) {
    const auto [p, q] = weights_.row_counts(m, first);
    for (Index k = 0; k < count; ++k) {
        divisors_[static_cast<std::size_t>(size_ + k)] = p.at(places[k]) * q.at(places[k]);
    }
}

std::span<const double> ScatteredWeights::take(std::size_t m) {
    double* out = values_.data();
    const Index length = std::exchange(size_, 0);
    const double factor = weights_.factors_[m];
    if (weights_.features_) {
        falling(out, length, -weights_.features_->beta);
        for (Index t = 0; t < length; ++t) out[t] *= factor;
    } else {
        std::fill_n(out, length, factor);
    }
    if (!weights_.fields_.empty()) {
        for (Index t = 0; t < length; ++t) out[t] *= fields_[static_cast<std::size_t>(t)];
    }
    if (!weights_.counts_.empty()) {
        for (Index t = 0; t < length; ++t) out[t] /= divisors_[static_cast<std::size_t>(t)];
    }
    if (weights_.fused_) {
        for (Index t = 0; t < length; ++t) out[t] *= fusions_[static_cast<std::size_t>(t)];
    }
    weights_.keep_sign(m, length, out);
    if (weights_.inside_) {
        for (Index t = 0; t < length; ++t) {
            if (kept_[static_cast<std::size_t>(t)] == 0) out[t] = 0.0;
        }
    }
    return {out, static_cast<std::size_t>(length)};
}

void GridWeights::all(std::size_t m, double* out) const {
    in_pieces(volume(shape_),
              [&](Index low, Index high) { std::fill(out + low, out + high, 0.0); });
    const Point strides = row_major_strides(shape_);
    Pause pause;
    for_each_run(tails(m), [&](const Point& first, Index length) {
        pause(length * (features_ ? 4 + features_->channels : 1));
        row(m, first, length, out + dot(first, strides));
    });
}

}  // namespace dope
