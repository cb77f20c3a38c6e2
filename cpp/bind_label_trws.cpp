#include <nanobind/stl/unique_ptr.h>

#include "at_work.h"
#include "bind.h"
#include "label_trws.h"

namespace dope {

namespace {

constexpr Index kMostLabels = 1 << 16;

template <class... Types>
SiteCosts costs_of(const AnyArray& array) {
    SiteCosts costs;
    const bool known = ((array.dtype() == nb::dtype<Types>() &&
                         (costs = static_cast<const Types*>(array.data()), true)) ||
                        ...);
    if (!known) {
        refuse_dtype(array, "costs", "uint8, uint16, int16, int32, float32 or float64");
    }
    return costs;
}

// An array that lies in row-major order and is read there: it is kept.
AnyArray in_place(nb::handle object, const Point& shape, const std::string& name,
                  LabelProblem& problem) {
    const AnyArray array = array_from(object, name);
    require_shape(array, shape, name);
    const Point strides = row_major_strides(shape);
    for (std::size_t a = 0; a < shape.size(); ++a) {
        if (shape[a] > 1 && array.stride(a) != strides[a] && volume(shape) > 0) {
            throw std::invalid_argument(name +
                                        " does not lie in row-major order: expected an array "
                                        "that does");
        }
    }
    problem.keep.push_back(view_of<char>(array).keep);
    return array;
}

LabelMetric metric_from(const std::string& kind, Index labels, double limit, nb::handle table) {
    if (kind == "table") {
        const Contiguous<double> values(table, {labels, labels}, "table", "float64");
        return {labels, std::vector<double>(values.data(), values.data() + labels * labels)};
    }
    if (!(limit >= 0.0)) {
        throw std::invalid_argument("limit is " + std::to_string(limit) + ": expected 0 or more");
    }
    if (kind == "potts") return {LabelMetric::Kind::kPotts, labels, limit};
    if (kind == "linear") return {LabelMetric::Kind::kLinear, labels, limit};
    if (kind == "quadratic") return {LabelMetric::Kind::kQuadratic, labels, limit};
    throw std::invalid_argument("metric is " + kind +
                                ": expected potts, linear, quadratic or table");
}

std::unique_ptr<LabelTrws> label_trws_from(const Neighbors& neighbors, const nb::object& costs,
                                           const nb::object& inside, const std::string& metric,
                                           double limit, const nb::object& table,
                                           const nb::object& tables, bool single) {
    const Point shape = shape_of(array_from(costs, "costs"));
    if (shape.size() != 2 || shape[1] < 2 || shape[1] > kMostLabels) {
        throw std::invalid_argument("costs has shape " + text(shape) +
                                    ": expected (sites, labels), 2 to " +
                                    std::to_string(kMostLabels) + " of them");
    }
    const Index labels = shape[1];
    LabelProblem problem{{}, nullptr, metric_from(metric, labels, limit, table), nullptr, {}};
    problem.costs =
        costs_of<std::uint8_t, std::uint16_t, std::int16_t, std::int32_t, float, double>(
            in_place(costs, {neighbors.sites(), labels}, "costs", problem));
    if (!inside.is_none()) {
        const AnyArray mask = in_place(inside, {neighbors.sites()}, "inside", problem);
        require_dtype<bool>(mask, "inside", "bool");
        problem.inside = static_cast<const std::uint8_t*>(mask.data());
    }
    if (!tables.is_none()) {
        const auto pairs = neighbors.graph_pairs();
        if (!pairs)
            throw std::invalid_argument("tables: expected the pairs of a graph, not a grid");
        const AnyArray found = in_place(tables, {*pairs, labels, labels}, "tables", problem);
        require_dtype<double>(found, "tables", "float64");
        problem.tables = static_cast<const double*>(found.data());
    }
    return at_work([&](const Poll&) { return label_trws(neighbors, problem, single); });
}

}  // namespace

void bind_label_trws(nb::module_& m) {
    nb::class_<LabelTrws>(m, "LabelTrws",
                          "Sequential tree-reweighted message passing with any number of labels.")
        .def(nb::new_(&label_trws_from), nb::arg("neighbors"), nb::arg("costs"),
             nb::arg("inside").none(), nb::arg("metric"), nb::arg("limit"), nb::arg("table").none(),
             nb::arg("tables").none(), nb::arg("single"))
        .def(
            "run",
            [](LabelTrws& self, Index rounds, double unit, Index threads) {
                at_work([&](const Poll& poll) { self.run(rounds, unit, threads, poll); });
            },
            nb::arg("rounds"), nb::arg("unit"), nb::arg("threads"))
        .def("labels",
             [](const LabelTrws& self) {
                 return fresh_array<std::uint16_t>({self.sites()}, [&](std::uint16_t* out) {
                     std::copy(self.best().begin(), self.best().end(), out);
                 });
             })
        .def_prop_ro("energy", &LabelTrws::energy)
        .def_prop_ro("bound", &LabelTrws::bound)
        .def_prop_ro("rounding_error", &LabelTrws::rounding_error)
        .def_prop_ro("rounds", &LabelTrws::rounds);
}

}  // namespace dope
