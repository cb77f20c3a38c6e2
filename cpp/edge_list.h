// The pairs of a graph as a list: brought into order, summed up, and seen as pairs of a grid.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "exact_sum.h"
#include "flow_types.h"
#include "view.h"

namespace dope {

// Sites as callers write them.
using SiteView = std::variant<View<std::int32_t>, View<std::int64_t>>;
using WeightView = std::variant<View<std::int32_t>, View<float>, View<double>>;

// Pairs (first[k], second[k]) with weights, `count` of them.
struct EdgeList {
    Index count = 0;
    std::unique_ptr<std::int64_t[]> first;
    std::unique_ptr<std::int64_t[]> second;
    std::unique_ptr<double[]> weights;
};

// The first edges that are none, -1 if there are none: with an end that is no site, and with equal
// ends.
struct BadEdges {
    Index outside = -1;
    Index loop = -1;
};
BadEdges find_bad_edges(Index sites, const SiteView& first, const SiteView& second, Index count,
                        const Poll& poll);

// Each pair once, the lower site first, in lexicographic order. Weights of parallel pairs are added
// up in the order they were given in, from 0 on. All sites are below `sites`.
EdgeList sort_edges(Index sites, const SiteView& first, const SiteView& second,
                    const WeightView& weights, Index count, const Poll& poll);

// The greatest sum of |weight|, and the greatest number, of the pairs of one site. A sum goes over
// the pairs that have the site first, then over the others.
struct Strength {
    double greatest_sum = 0.0;
    Index most_pairs = 0;
};
Strength strength_of(Index sites, const std::int64_t* first, const std::int64_t* second,
                     const double* weights, Index count, const Poll& poll);

// The sum of the weights of pairs whose labels (bytes that are 0 or not) differ.
ExactSum cut_weight(const std::int64_t* first, const std::int64_t* second, const double* weights,
                    Index count, const std::uint8_t* labels, const Poll& poll);

// The pairs of a grid whose sites are counted in row-major order: all offsets that occur, sorted,
// and for each an array of the weight at every first site, 0 where there is no such pair. Where
// there are more than `most` offsets, there are no arrays.
struct GridFields {
    std::vector<Point> offsets;
    std::vector<std::unique_ptr<double[]>> fields;
};
GridFields grid_fields(const Point& shape, const std::int64_t* first, const std::int64_t* second,
                       const double* weights, Index count, std::size_t most, const Poll& poll);

}  // namespace dope
