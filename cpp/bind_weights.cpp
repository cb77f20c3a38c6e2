#include "bind.h"
#include "contrast.h"
#include "grid_weights.h"
#include "roughness.h"

namespace dope {

namespace {

Features features_from(nb::handle object, const Point& shape, double beta) {
    const AnyArray array = array_from(object, "features");
    const Point found = shape_of(array);
    if (found.size() != shape.size() + 1 ||
        !std::equal(shape.begin(), shape.end(), found.begin())) {
        throw std::invalid_argument("features has shape " + text(found) + ": expected " +
                                    text(shape) + " and one more axis for channels");
    }
    return {pixel_view(array, "features"), found.back(), beta};
}

std::vector<RealView> fields_from(const nb::sequence& arrays, const Point& shape, std::size_t h) {
    std::vector<RealView> fields;
    for (const nb::handle object : arrays) {
        const std::string name = "fields[" + std::to_string(fields.size()) + "]";
        const AnyArray array = array_from(object, name);
        require_shape(array, shape, name);
        fields.push_back(real_view(array, name));
    }
    if (fields.size() != h) {
        throw std::invalid_argument("fields has " + std::to_string(fields.size()) +
                                    " entries: expected one per offset, " + std::to_string(h));
    }
    return fields;
}

std::optional<MaskView> mask_from(const nb::object& object, const Point& shape) {
    if (object.is_none()) return {};
    const AnyArray array = array_from(object, "inside");
    require_shape(array, shape, "inside");
    require_dtype<bool>(array, "inside", "bool");
    return view_of<std::uint8_t>(array);  // a byte each, for nobody promises that it is 0 or 1
}

GridWeights weights_from(const nb::sequence& shape_numbers, nb::handle offset_rows,
                         nb::handle factor_list, const nb::object& feature_array, double beta,
                         const std::optional<nb::sequence>& field_arrays,
                         const std::optional<nb::sequence>& count_lists, const nb::object& inside) {
    const Point shape = grid_shape(shape_numbers);
    std::vector<Point> offsets = offsets_from(offset_rows, shape.size());
    const std::size_t h = offsets.size();
    std::vector<double> factors = doubles_from(factor_list, static_cast<Index>(h), "factors");
    std::optional<Features> features;
    if (!feature_array.is_none()) features = features_from(feature_array, shape, beta);
    std::vector<RealView> fields;
    if (field_arrays) fields = fields_from(*field_arrays, shape, h);
    std::vector<std::vector<double>> counts;
    if (count_lists) counts = counts_from(*count_lists, shape);
    return GridWeights(shape, std::move(offsets), std::move(factors), std::move(features),
                       std::move(fields), std::move(counts), mask_from(inside, shape));
}

Box box_from(const nb::sequence& low, const nb::sequence& high, const Point& shape) {
    const Box box{point_from(low, shape.size(), "low"), point_from(high, shape.size(), "high")};
    for (std::size_t a = 0; a < shape.size(); ++a) {
        if (box.low[a] < 0 || box.high[a] > shape[a]) {
            throw std::invalid_argument("the box from " + text(box.low) + " to " + text(box.high) +
                                        " leaves the grid: expected it inside " + text(shape));
        }
    }
    return box;
}

nb::tuple contrast_of(nb::handle feature_array, nb::handle offset_rows, const nb::sequence& low,
                      const nb::sequence& high, double unit, const nb::object& mask) {
    const AnyArray array = array_from(feature_array, "features");
    Point shape = shape_of(array);
    if (shape.size() < 2) {
        throw std::invalid_argument("features has shape " + text(shape) +
                                    ": expected at least one axis and one more for channels");
    }
    shape.pop_back();
    const Features features = features_from(feature_array, shape, 0.0);
    const std::vector<Point> offsets = offsets_from(offset_rows, shape.size());
    const Box box = box_from(low, high, shape);
    const std::optional<MaskView> inside = mask_from(mask, shape);
    if (!(unit > 0.0)) {
        throw std::invalid_argument("unit is " + std::to_string(unit) +
                                    ": expected a number above 0");
    }
    const Contrast total =
        at_work([&](const Poll&) { return contrast(features, shape, offsets, box, unit, inside); });
    return nb::make_tuple(whole_number(total.sum), total.pairs);
}

ExactSum exact_roughness_of(const GridWeights& weights, nb::handle labels, const Box& box,
                            const char* expected) {
    const Contiguous<bool> values(labels, weights.shape(), "y", expected);
    // As bytes: nobody promises that a NumPy bool is 0 or 1 in memory.
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
    return at_work([&](const Poll&) { return roughness(weights, bytes, box); });
}

double roughness_of(const GridWeights& weights, nb::handle y, const nb::sequence& low,
                    const nb::sequence& high) {
    const Box box = box_from(low, high, weights.shape());
    if (array_from(y, "y").dtype() == nb::dtype<double>()) {
        const Contiguous<double> numbers(y, weights.shape(), "y", "float64");
        return at_work([&](const Poll&) { return roughness(weights, numbers.data(), box); });
    }
    return exact_roughness_of(weights, y, box, "bool or float64").nearest();
}

}  // namespace

void bind_weights(nb::module_& m) {
    nb::class_<GridWeights>(
        m, "GridWeights",
        "w(p, m), the weight of the pair (p, p + offsets[m]) on a grid, computed "
        "when asked for and never stored.")
        .def(
            "__init__",
            [](GridWeights* self, const nb::sequence& shape, const nb::object& offsets,
               const nb::object& factors, const nb::object& features, double beta,
               const std::optional<nb::sequence>& fields, const std::optional<nb::sequence>& counts,
               const nb::object& inside) {
                new (self) GridWeights(
                    weights_from(shape, offsets, factors, features, beta, fields, counts, inside));
            },
            nb::arg("shape"), nb::arg("offsets"), nb::arg("factors"),
            nb::arg("features") = nb::none(), nb::arg("beta") = 0.0, nb::arg("fields") = nb::none(),
            nb::arg("counts") = nb::none(), nb::arg("inside") = nb::none())
        .def(
            "weights",
            [](const GridWeights& self, std::size_t index) {
                if (index >= self.size()) {
                    throw std::invalid_argument("there is no offset " + std::to_string(index) +
                                                ": expected less than " +
                                                std::to_string(self.size()));
                }
                return fresh_array<double>(self.shape(),
                                           [&](double* out) { self.all(index, out); });
            },
            nb::arg("m"), "w(p, m) for every site p, 0 where p + offsets[m] is outside.");
    m.def("contrast", &contrast_of, nb::arg("features"), nb::arg("offsets"), nb::arg("low"),
          nb::arg("high"), nb::arg("unit"), nb::arg("inside") = nb::none(),
          "The exact sum of rint(|x_p - x_q|^2 / unit) over the pairs with p in the box, and their "
          "number; those with both ends inside a mask, if there is one.");
    m.def("roughness", &roughness_of, nb::arg("weights"), nb::arg("y"), nb::arg("low"),
          nb::arg("high"), "The sum of w (y_p - y_q)^2 over the pairs with p in the box.");
    m.def(
        "exact_roughness",
        [](const GridWeights& weights, nb::handle labels, const nb::sequence& low,
           const nb::sequence& high) {
            const Box box = box_from(low, high, weights.shape());
            return integer(exact_roughness_of(weights, labels, box, "bool"));
        },
        nb::arg("weights"), nb::arg("labels"), nb::arg("low"), nb::arg("high"),
        "The sum of the weights of the pairs with p in the box whose labels differ, an int in "
        "units of 2^-EXACT_PLACES.");
}

}  // namespace dope
