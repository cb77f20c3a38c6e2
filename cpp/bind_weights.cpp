#include "bind.h"
#include "contrast.h"
#include "grid_weights.h"
#include "label_sums.h"
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

LabelCosts costs_from(nb::handle object) {
    const AnyArray found = array_from(object, "costs");
    const Index labels = found.ndim() > 0 ? static_cast<Index>(found.shape(0)) : 0;
    if (labels < 1 || labels > LabelCosts::kMostLabels) {
        throw std::invalid_argument("costs has shape " + text(shape_of(found)) +
                                    ": expected (L, L), of 1 to " +
                                    std::to_string(LabelCosts::kMostLabels) + " labels");
    }
    const Contiguous<double> numbers(object, {labels, labels}, "costs", "float64");
    return {{numbers.data(), numbers.data() + labels * labels}, static_cast<std::int32_t>(labels)};
}

template <class Label>
void require_labels(const View<Label>& labels, const Point& shape, std::int32_t count,
                    const std::string& name) {
    const Index step = labels.strides.back();
    Pause pause;
    for_each_run(whole(shape), [&](const Point& first, Index length) {
        pause(length);
        const Label* const row = labels.at(first);
        Label most = 0;
        for (Index t = 0; t < length; ++t) most = std::max(most, row[t * step]);
        if (most >= count) {
            throw std::invalid_argument(name + " has " + std::to_string(most) +
                                        ": expected labels below " + std::to_string(count));
        }
    });
}

LabelView label_view(nb::handle object, const Point& shape, std::int32_t count,
                     const std::string& name) {
    const AnyArray array = array_from(object, name);
    require_shape(array, shape, name);
    const auto checked = [&](auto view) -> LabelView {
        at_work([&](const Poll&) { require_labels(view, shape, count, name); });
        return view;
    };
    if (array.dtype() == nb::dtype<std::uint8_t>()) return checked(view_of<std::uint8_t>(array));
    if (array.dtype() == nb::dtype<std::uint16_t>()) return checked(view_of<std::uint16_t>(array));
    refuse_dtype(array, name, "uint8 or uint16");
}

std::optional<Fused> fused_from(const nb::object& labels, const nb::object& proposal,
                                const nb::object& cost_table, const Point& shape) {
    if (labels.is_none()) return {};
    LabelCosts costs = costs_from(cost_table);
    LabelView kept = label_view(labels, shape, costs.labels, "labels");
    std::optional<LabelView> taken;
    if (!proposal.is_none()) {
        taken = label_view(proposal, shape, costs.labels, "proposal");
        if (taken->index() != kept.index()) {
            throw std::invalid_argument("labels and proposal are of different types: expected one");
        }
    }
    return Fused(std::move(kept), std::move(taken), std::move(costs));
}

std::vector<int> signs_from(const nb::object& object, std::size_t h) {
    if (object.is_none()) return {};
    const Contiguous<std::int8_t> signs(object, {static_cast<Index>(h)}, "signs", "int8");
    return {signs.data(), signs.data() + h};
}

GridWeights weights_from(const nb::sequence& shape_numbers, nb::handle offset_rows,
                         nb::handle factor_list, const nb::object& feature_array, double beta,
                         const std::optional<nb::sequence>& field_arrays,
                         const std::optional<nb::sequence>& count_lists, const nb::object& inside,
                         const nb::object& labels, const nb::object& proposal,
                         const nb::object& costs, const nb::object& signs) {
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
                       std::move(fields), std::move(counts), mask_from(inside, shape),
                       fused_from(labels, proposal, costs, shape), signs_from(signs, h));
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

// Two images of labels of one type, in row-major order, or one of them: visit(labels, proposal).
template <class Visit>
auto with_labels(nb::handle labels, nb::handle proposal, const Point& shape, std::int32_t count,
                 Visit&& visit) {
    const auto visit_as = [&]<class Label>(Label, const char* dtype) {
        const Contiguous<Label> kept(labels, shape, "labels", dtype);
        const Contiguous<Label> taken(proposal, shape, "proposal", dtype);
        const Point strides = row_major_strides(shape);
        return at_work([&](const Poll&) {
            require_labels(View<Label>{kept.data(), strides, nullptr}, shape, count, "labels");
            if (taken.data() != kept.data()) {
                require_labels(View<Label>{taken.data(), strides, nullptr}, shape, count,
                               "proposal");
            }
            return visit(kept.data(), taken.data());
        });
    };
    const bool wide = array_from(labels, "labels").dtype() == nb::dtype<std::uint16_t>();
    return wide ? visit_as(std::uint16_t{}, "uint16") : visit_as(std::uint8_t{}, "uint8 or uint16");
}

nb::object exact_label_cost_of(const GridWeights& weights, nb::handle labels, nb::handle cost_table,
                               const nb::sequence& low, const nb::sequence& high) {
    const Box box = box_from(low, high, weights.shape());
    const LabelCosts costs = costs_from(cost_table);
    return integer(with_labels(
        labels, labels, weights.shape(), costs.labels,
        [&](const auto* kept, const auto*) { return label_cost(weights, kept, costs, box); }));
}

nb::ndarray<nb::numpy, double> label_slopes_of(const GridWeights& weights, nb::handle labels,
                                               nb::handle proposal, nb::handle cost_table) {
    const LabelCosts costs = costs_from(cost_table);
    const Point& shape = weights.shape();
    std::unique_ptr<double[]> slopes(new double[static_cast<std::size_t>(volume(shape))]);
    with_labels(labels, proposal, shape, costs.labels, [&](const auto* kept, const auto* taken) {
        label_slopes(weights, kept, taken, costs, slopes.get());
    });
    return array_owning(std::move(slopes), shape);
}

nb::ndarray<nb::numpy, bool> joint_labels_of(nb::handle labels, nb::handle proposal,
                                             nb::handle moving, Index count) {
    const Point shape = shape_of(array_from(labels, "labels"));
    const Contiguous<bool> sites(moving, shape, "moving", "bool");
    if (count < 1 || count > LabelCosts::kMostLabels) {
        throw std::invalid_argument("there are " + std::to_string(count) +
                                    " labels: expected 1 to " +
                                    std::to_string(LabelCosts::kMostLabels));
    }
    const auto few = static_cast<std::int32_t>(count);
    const auto size = static_cast<std::size_t>(count * count);
    std::unique_ptr<bool[]> joint(new bool[size]());
    with_labels(labels, proposal, shape, few, [&](const auto* kept, const auto* taken) {
        joint_labels(kept, taken, reinterpret_cast<const std::uint8_t*>(sites.data()),
                     volume(shape), few, reinterpret_cast<std::uint8_t*>(joint.get()));
    });
    return array_owning(std::move(joint), {count, count});
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
               const nb::object& inside, const nb::object& labels, const nb::object& proposal,
               const nb::object& costs, const nb::object& signs) {
                new (self)
                    GridWeights(weights_from(shape, offsets, factors, features, beta, fields,
                                             counts, inside, labels, proposal, costs, signs));
            },
            nb::arg("shape"), nb::arg("offsets"), nb::arg("factors"),
            nb::arg("features") = nb::none(), nb::arg("beta") = 0.0, nb::arg("fields") = nb::none(),
            nb::arg("counts") = nb::none(), nb::arg("inside") = nb::none(),
            nb::arg("labels") = nb::none(), nb::arg("proposal") = nb::none(),
            nb::arg("costs") = nb::none(), nb::arg("signs") = nb::none())
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
    m.def(
        "exact_label_cost", &exact_label_cost_of, nb::arg("weights"), nb::arg("labels"),
        nb::arg("costs"), nb::arg("low"), nb::arg("high"),
        "The sum of w V(x_p, x_q) over the pairs with p in the box, each product rounded once, an "
        "int in units of 2^-EXACT_PLACES. Equal labels cost nothing.");
    m.def("label_slopes", &label_slopes_of, nb::arg("weights"), nb::arg("labels"),
          nb::arg("proposal"), nb::arg("costs"),
          "What the pairs add to the unary of a move from labels to a proposal, at every site.");
    m.def("joint_labels", &joint_labels_of, nb::arg("labels"), nb::arg("proposal"),
          nb::arg("moving"), nb::arg("label_count"),
          "(L, L): which label is proposed instead of which at some of the sites that move.");
}

}  // namespace dope
