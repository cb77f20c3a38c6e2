// The pair weights of a grid, computed from the picture when they are asked for and never stored:
//
//     w(p, m) = factors[m] * exp(-beta |x_p - x_q|^2) * fields[m][p] / (count(p) count(q)),   q = p
//     + offsets[m]
//
// where exp needs features, fields and counts are optional, and count(p) is the product over axes
// of counts[a][p_a]. In a move of several labels they are multiplied by what is `fused`. Where
// signs[m] is not 0 only weights of that sign count, as their size. Pairs whose q lies outside the
// box do not exist; where there is a mask of the sites `inside`, those with an end outside it weigh
// 0, whatever the pixels there are.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fused.h"
#include "view.h"

namespace dope {

struct Features {
    PixelView values;  // one more axis than the box: channels, last
    Index channels = 0;
    double beta = 0.0;
};

class GridWeights {
  public:
    // Trusts its arguments: extents >= 1; as many factors (and fields and signs, if any) as
    // offsets; counts empty or one list per axis.
    GridWeights(Point shape, std::vector<Point> offsets, std::vector<double> factors,
                std::optional<Features> features, std::vector<RealView> fields,
                std::vector<std::vector<double>> counts, std::optional<MaskView> inside = {},
                std::optional<Fused> fused = {}, std::vector<int> signs = {});

    const Point& shape() const { return shape_; }
    const std::vector<Point>& offsets() const { return offsets_; }
    const std::vector<double>& factors() const { return factors_; }
    std::size_t size() const { return offsets_.size(); }

    const std::optional<MaskView>& inside() const { return inside_; }
    // The features, if weights of pairs inside are factor * exp(-beta |x_p - x_q|^2) and no more.
    const Features* contrast_only() const {
        const bool alone = fields_.empty() && counts_.empty() && !fused_ && signs_.empty();
        return features_ && alone ? &*features_ : nullptr;
    }

    // The sites p for which the pair (p, p + offsets[m]) exists.
    Box tails(std::size_t m) const { return dope::tails(whole(shape_), shape_, offsets_[m]); }

    // w(p, m) for the `length` sites from `first` along the last axis, all of them in tails(m).
    void row(std::size_t m, const Point& first, Index length, double* out) const;

    // The same in three steps, of which the second takes many rows at once: then what it costs to
    // start a loop over vectors does not count.
    void begin_row(std::size_t m, const Point& first, Index length, double* out) const;
    void exponentials(double* out, Index length) const;  // nothing if there are no features
    void end_row(std::size_t m, const Point& first, Index length, double* out) const;

    // w(p, m) for all sites in row-major order, 0 where the pair does not exist.
    void all(std::size_t m, double* out) const;

  private:
    friend class ScatteredWeights;

    // count(p) of the sites of a row.
    struct RowCounts {
        double across;        // the product over all axes but the last
        const double* along;  // of the last
        double at(Index t) const { return across * along[t]; }
    };
    // Those of p, from `first` on, and of q.
    std::pair<RowCounts, RowCounts> row_counts(std::size_t m, const Point& first) const;

    void keep_sign(std::size_t m, Index length, double* out) const;

    Point shape_;
    std::vector<Point> offsets_;
    std::vector<double> factors_;
    std::optional<Features> features_;
    std::vector<RealView> fields_;
    std::vector<std::vector<double>> counts_;
    std::optional<MaskView> inside_;
    std::optional<Fused> fused_;
    std::vector<int> signs_;
};

// Weights of pairs here and there, the same bits as a row of them: pairs of one offset are put down
// row by row, then all weights are computed at once.
class ScatteredWeights {
  public:
    explicit ScatteredWeights(const GridWeights& weights) : weights_(weights) {}

    // The pairs of offset m whose sites p are first + places[k] along the last axis.
    void put(std::size_t m, const Point& first, const Index* places, Index count);
    Index size() const { return size_; }

    // The weights of what was put down, all of it for this m, in order; nothing is put down then.
    // They stay until the next put().
    std::span<const double> take(std::size_t m);

  private:
    void put_counts(std::size_t m, const Point& first, const Index* places, Index count);

    const GridWeights& weights_;
    Index size_ = 0;
    std::vector<double> values_;      // squared distances, in the end weights
    std::vector<double> fields_;      // if there are any: what to multiply by
    std::vector<double> divisors_;    // if there are counts: what to divide by
    std::vector<double> fusions_;     // if labels move: what to multiply by then
    std::vector<std::uint8_t> kept_;  // if there is a mask: whether both ends are inside
};

// |x_p - x_q|^2, summed over channels in order, for a run of sites p and q = p + offset.
void squared_distances(const Features& features, const Point& first, const Point& offset,
                       Index length, double* out);

}  // namespace dope
