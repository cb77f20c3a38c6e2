#include <nanobind/stl/vector.h>

#include "at_work.h"
#include "bind.h"
#include "edge_list.h"

namespace dope {

namespace {

SiteView sites_view(const AnyArray& array, const std::string& name) {
    if (array.dtype() == nb::dtype<std::int32_t>()) return view_of<std::int32_t>(array);
    if (array.dtype() == nb::dtype<std::int64_t>()) return view_of<std::int64_t>(array);
    refuse_dtype(array, name, "int32 or int64");
}

WeightView weights_view(const AnyArray& array) {
    if (array.dtype() == nb::dtype<std::int32_t>()) return view_of<std::int32_t>(array);
    if (array.dtype() == nb::dtype<float>()) return view_of<float>(array);
    if (array.dtype() == nb::dtype<double>()) return view_of<double>(array);
    refuse_dtype(array, "weights", "int32, float32 or float64");
}

// How many there are of an array with one axis.
Index length_of(nb::handle object, const std::string& name) {
    const AnyArray array = array_from(object, name);
    if (array.ndim() != 1) {
        throw std::invalid_argument(name + " has shape " + text(shape_of(array)) +
                                    ": expected one axis");
    }
    return static_cast<Index>(array.shape(0));
}

nb::tuple sort(Index sites, nb::handle first, nb::handle second, nb::handle weights) {
    require_sites(sites);
    const Index count = length_of(first, "first");
    const AnyArray firsts = array_from(first, "first");
    const AnyArray seconds = array_from(second, "second");
    const AnyArray values = array_from(weights, "weights");
    require_shape(seconds, {count}, "second");
    require_shape(values, {count}, "weights");
    const SiteView one = sites_view(firsts, "first");
    const SiteView other = sites_view(seconds, "second");
    const WeightView numbers = weights_view(values);
    BadEdges bad;
    EdgeList list;
    at_work([&](const Poll& poll) {
        bad = find_bad_edges(sites, one, other, count, poll);
        if (bad.outside < 0 && bad.loop < 0) {
            list = sort_edges(sites, one, other, numbers, count, poll);
        }
    });
    if (bad.outside >= 0 || bad.loop >= 0) return nb::make_tuple(bad.outside, bad.loop, nb::none());
    const Point shape{list.count};
    return nb::make_tuple(-1, -1,
                          nb::make_tuple(array_owning(std::move(list.first), shape),
                                         array_owning(std::move(list.second), shape),
                                         array_owning(std::move(list.weights), shape)));
}

// Pairs in order, each of its sites in `first` and `second`.
class Pairs {
  public:
    Pairs(Index sites, nb::handle first, nb::handle second, nb::handle weights)
        : count_(length_of(first, "first")),
          first_(first, {count_}, "first", "int64"),
          second_(second, {count_}, "second", "int64"),
          weights_(weights, {count_}, "weights", "float64") {
        require_sites(sites);
        for (Index k = 0; k < count_; ++k) {
            for (const std::int64_t site : {first_.data()[k], second_.data()[k]}) {
                if (site >= 0 && site < sites) continue;
                throw std::invalid_argument("pair " + std::to_string(k) + " ends at site " +
                                            std::to_string(site) + ": expected 0 to " +
                                            std::to_string(sites - 1));
            }
        }
    }
    Index count() const { return count_; }
    const std::int64_t* first() const { return first_.data(); }
    const std::int64_t* second() const { return second_.data(); }
    const double* weights() const { return weights_.data(); }

  private:
    Index count_;
    Contiguous<std::int64_t> first_;
    Contiguous<std::int64_t> second_;
    Contiguous<double> weights_;
};

nb::tuple strength(Index sites, nb::handle first, nb::handle second, nb::handle weights) {
    const Pairs pairs(sites, first, second, weights);
    const Strength found = at_work([&](const Poll& poll) {
        return strength_of(sites, pairs.first(), pairs.second(), pairs.weights(), pairs.count(),
                           poll);
    });
    return nb::make_tuple(found.greatest_sum, found.most_pairs);
}

nb::object cut(nb::handle first, nb::handle second, nb::handle weights, nb::handle labels) {
    const Index sites = length_of(labels, "labels");
    const Pairs pairs(sites, first, second, weights);
    const Contiguous<bool> chosen(labels, {sites}, "labels", "bool");
    // As bytes: nobody promises that a NumPy bool is 0 or 1 in memory.
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(chosen.data());
    return integer(at_work([&](const Poll& poll) {
        return cut_weight(pairs.first(), pairs.second(), pairs.weights(), pairs.count(), bytes,
                          poll);
    }));
}

nb::tuple fields(const nb::sequence& shape, nb::handle first, nb::handle second, nb::handle weights,
                 std::size_t most) {
    const Point extents = grid_shape(shape);
    const Pairs pairs(volume(extents), first, second, weights);
    GridFields found = at_work([&](const Poll& poll) {
        return grid_fields(extents, pairs.first(), pairs.second(), pairs.weights(), pairs.count(),
                           most, poll);
    });
    nb::list arrays;
    for (auto& field : found.fields) arrays.append(array_owning(std::move(field), extents));
    return nb::make_tuple(found.offsets, arrays);
}

}  // namespace

void bind_edges(nb::module_& m) {
    m.def("sort_edges", &sort, nb::arg("sites"), nb::arg("first"), nb::arg("second"),
          nb::arg("weights"),
          "(first edge that leaves the sites or -1, first edge with equal ends or -1, (first, "
          "second, weights) of all pairs in order, parallel ones added up, or None).");
    m.def("graph_strength", &strength, nb::arg("sites"), nb::arg("first"), nb::arg("second"),
          nb::arg("weights"),
          "(greatest sum of |weight|, greatest number) of the pairs of one site.");
    m.def("exact_cut", &cut, nb::arg("first"), nb::arg("second"), nb::arg("weights"),
          nb::arg("labels"),
          "The sum of the weights of pairs whose labels differ, an int in units of "
          "2^-EXACT_PLACES.");
    m.def("grid_fields", &fields, nb::arg("shape"), nb::arg("first"), nb::arg("second"),
          nb::arg("weights"), nb::arg("most"),
          "(offsets of all pairs, sorted, a list of weights at every first site) on a grid; no "
          "weights where there are more than `most` offsets.");
}

}  // namespace dope
