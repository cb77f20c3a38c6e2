#include "capacities.h"

#include "wide_vectors.h"

namespace dope {

namespace {

template <class Integer>
inline bool round_each(const double* weights, std::int64_t count, double scale, double most,
                       Integer* capacities) {
    // Without branches, so that it turns into vector code; what is not a number fails comparisons.
    Integer misfits = 0;
    for (std::int64_t t = 0; t < count; ++t) {
        const double rounded = nearest(weights[t] * scale);
        const double below = rounded < most ? rounded : most;
        capacities[t] = static_cast<Integer>(below > 0.0 ? below : 0.0);
        misfits |= (weights[t] >= 0.0 ? Integer{0} : Integer{1}) |
                   (rounded <= most ? Integer{0} : Integer{1});
    }
    return misfits == 0;
}

}  // namespace

DOPE_WIDE_VECTORS bool round_weights(const double* weights, std::int64_t count, double scale,
                                     double most, std::int32_t* capacities) {
    return round_each(weights, count, scale, most, capacities);
}

DOPE_WIDE_VECTORS bool round_weights(const double* weights, std::int64_t count, double scale,
                                     double most, std::int64_t* capacities) {
    return round_each(weights, count, scale, most, capacities);
}

}  // namespace dope
