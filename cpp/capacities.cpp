#include "capacities.h"

#include "wide_vectors.h"

namespace dope {

DOPE_WIDE_VECTORS Extremes round_weights(double* weights, std::int64_t count, double scale) {
    double least = 0.0;
    double most = 0.0;
    double not_numbers = 0.0;
    for (std::int64_t t = 0; t < count; ++t) {
        least = weights[t] < least ? weights[t] : least;
        not_numbers += weights[t] != weights[t] ? 1.0 : 0.0;
        weights[t] = nearest(weights[t] * scale);
        most = weights[t] > most ? weights[t] : most;
    }
    return {not_numbers > 0.0 ? -1.0 : least, most};
}

}  // namespace dope
