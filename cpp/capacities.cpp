#include "capacities.h"

#include "wide_vectors.h"

namespace dope {

namespace {

// Without branches, so that it turns into vector code; what is not a number fails comparisons.
template <class Capacity>
inline bool round_each(const double* weights, std::int64_t count, double scale, double most,
                       Capacity* capacities) {
    using Integer = std::conditional_t<sizeof(Capacity) == 8, std::int64_t, std::int32_t>;
    Integer misfits = 0;
    for (std::int64_t t = 0; t < count; ++t) {
        const double rounded = nearest(weights[t] * scale);
        const double below = rounded < most ? rounded : most;
        capacities[t] = static_cast<Capacity>(static_cast<Integer>(below > 0.0 ? below : 0.0));
        misfits |= (weights[t] >= 0.0 ? Integer{0} : Integer{1}) |
                   (rounded <= most ? Integer{0} : Integer{1});
    }
    return misfits == 0;
}

template <class Capacity, class Sum>
inline bool add_each(const Capacity* capacities, std::int64_t count, Sum* sums) {
    Capacity least = std::numeric_limits<Capacity>::max();
    for (std::int64_t t = 0; t < count; ++t) {
        sums[t] += capacities[t];
        least = std::min(least, capacities[t]);
    }
    return least > 0;
}

}  // namespace

// Attributes that choose a processor do not reach templates: one function for each width.
#define DOPE_WIDTH(Capacity, Sum)                                                                 \
    DOPE_WIDE_VECTORS bool round_weights(const double* weights, std::int64_t count, double scale, \
                                         double most, Capacity* capacities) {                     \
        return round_each(weights, count, scale, most, capacities);                               \
    }                                                                                             \
    DOPE_WIDE_VECTORS bool add_capacities(const Capacity* capacities, std::int64_t count,         \
                                          Sum* sums) {                                            \
        return add_each(capacities, count, sums);                                                 \
    }
DOPE_WIDTH(std::int16_t, std::int32_t)
DOPE_WIDTH(std::int32_t, std::int64_t)
DOPE_WIDTH(std::int64_t, std::int64_t)
#undef DOPE_WIDTH

}  // namespace dope
