#include "grid_weights.h"

#include "portable_exp.h"
#include "wide_vectors.h"

namespace dope {

namespace {

template <class T>
double squared_difference(T a, T b) {
    const double difference = static_cast<double>(a) - static_cast<double>(b);
    return difference * difference;
}

// Replaces each squared distance by factor * exp(minus_beta * squared distance).
DOPE_WIDE_VECTORS void falling(double* out, Index length, double factor, double minus_beta) {
    for (Index t = 0; t < length; ++t) out[t] = factor * portable_exp(minus_beta * out[t]);
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
            if (features.channels == 1 && step == 1) {
                for (Index t = 0; t < length; ++t) out[t] = squared_difference(p[t], q[t]);
                return;
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
                         std::vector<std::vector<double>> counts)
    : shape_(std::move(shape)),
      offsets_(std::move(offsets)),
      factors_(std::move(factors)),
      features_(std::move(features)),
      fields_(std::move(fields)),
      counts_(std::move(counts)) {}

void GridWeights::row(std::size_t m, const Point& first, Index length, double* out) const {
    const double factor = factors_[m];
    if (features_) {
        squared_distances(*features_, first, offsets_[m], length, out);
        falling(out, length, factor, -features_->beta);
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
        const std::size_t last = shape_.size() - 1;
        double p_count = 1.0;
        double q_count = 1.0;
        for (std::size_t a = 0; a < last; ++a) {
            p_count *= counts_[a][static_cast<std::size_t>(first[a])];
            q_count *= counts_[a][static_cast<std::size_t>(first[a] + offsets_[m][a])];
        }
        const double* p = counts_[last].data() + first[last];
        const double* q = p + offsets_[m][last];
        for (Index t = 0; t < length; ++t) out[t] /= (p_count * p[t]) * (q_count * q[t]);
    }
}

void GridWeights::all(std::size_t m, double* out) const {
    std::fill_n(out, volume(shape_), 0.0);
    const Point strides = row_major_strides(shape_);
    for_each_run(tails(m), [&](const Point& first, Index length) {
        row(m, first, length, out + dot(first, strides));
    });
}

}  // namespace dope
