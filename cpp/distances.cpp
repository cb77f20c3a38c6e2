#include "distances.h"

#include <cmath>
#include <vector>

#include "pause.h"
#include "shared_array.h"

namespace dope {

namespace {

// Squared distances, exact below 2^53.
constexpr double kFar = 1e300;

// The lower envelope of the parabolas q -> (q - p)^2 + height[p], in place.
class Envelope {
  public:
    explicit Envelope(Index most)
        : place_(static_cast<std::size_t>(most)),
          from_(static_cast<std::size_t>(most) + 1),
          height_(static_cast<std::size_t>(most)) {}

    void lower(double* line, Index length, Index stride) {
        Index count = 0;
        for (Index p = 0; p < length; ++p) {
            const double h = line[p * stride];
            if (h >= kFar) continue;
            double meet = -kFar;
            while (count > 0) {
                const auto q = static_cast<double>(place_[count - 1]);
                const auto r = static_cast<double>(p);
                meet = ((h + r * r) - (height_[count - 1] + q * q)) / (2.0 * (r - q));
                if (meet > from_[count - 1]) break;
                --count;
                meet = -kFar;
            }
            place_[count] = p;
            height_[count] = h;
            from_[count] = meet;
            ++count;
        }
        if (count == 0) return;
        from_[count] = kFar;
        for (Index p = 0, k = 0; p < length; ++p) {
            while (from_[k + 1] < static_cast<double>(p)) ++k;
            const auto away = static_cast<double>(p - place_[k]);
            line[p * stride] = away * away + height_[k];
        }
    }

  private:
    std::vector<Index> place_;
    std::vector<double> from_, height_;
};

// Squared distances to the nearest site whose square is 0.
void transform(const Point& shape, double* squares) {
    const Point strides = row_major_strides(shape);
    Pause pause;
    for (std::size_t a = shape.size(); a-- > 0;) {
        Envelope envelope(shape[a]);
        Box lines = whole(shape);
        lines.high[a] = 1;
        for_each_run(lines, [&](const Point& first, Index length) {
            const Index last = strides[shape.size() - 1];
            double* start = squares + dot(first, strides);
            for (Index t = 0; t < length; ++t) {
                envelope.lower(start + t * last, shape[a], strides[a]);
                pause(8 * shape[a]);
            }
        });
    }
}

}  // namespace

void distances(const Point& shape, const std::uint8_t* labels, double* out) {
    const Index sites = volume(shape);
    const SharedArray<double> memory(2 * static_cast<std::size_t>(sites));
    double* const to_zero = memory.data();
    double* const to_one = to_zero + sites;
    bool any = false;
    in_pieces(sites, [&](Index low, Index high) {
        for (Index i = low; i < high; ++i) {
            const bool one = labels[i] != 0;
            any = any || one;
            to_zero[i] = one ? kFar : 0.0;
            to_one[i] = one ? 0.0 : kFar;
        }
    });
    if (!any) {
        for (Index i = 0; i < sites; ++i) out[i] = 1.0;
        return;
    }
    transform(shape, to_zero);
    transform(shape, to_one);
    Index i = 0;
    Pause pause;
    for_each_run(whole(shape), [&](const Point& first, Index length) {
        pause(4 * length);
        Point at = first;
        for (Index t = 0; t < length; ++t, ++at.back(), ++i) {
            double square = to_one[i];
            if (labels[i] != 0) {
                square = to_zero[i];
                for (std::size_t a = 0; a < shape.size(); ++a) {
                    const auto out_of = static_cast<double>(std::min(at[a] + 1, shape[a] - at[a]));
                    square = std::min(square, out_of * out_of);
                }
            }
            out[i] = std::sqrt(square) - 0.5;
        }
    });
}

}  // namespace dope
