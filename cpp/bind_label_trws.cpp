#include <nanobind/stl/unique_ptr.h>

#include "at_work.h"
#include "bind.h"
#include "label_trws.h"

namespace dope {

namespace {

constexpr Index kMostLabels = 1 << 16;

LabelCosts costs_from(const nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>& costs) {
    const auto dtype = costs.dtype();
    if (dtype == nb::dtype<std::uint8_t>()) return static_cast<const std::uint8_t*>(costs.data());
    if (dtype == nb::dtype<std::uint16_t>()) return static_cast<const std::uint16_t*>(costs.data());
    if (dtype == nb::dtype<std::int16_t>()) return static_cast<const std::int16_t*>(costs.data());
    if (dtype == nb::dtype<std::int32_t>()) return static_cast<const std::int32_t*>(costs.data());
    if (dtype == nb::dtype<float>()) return static_cast<const float*>(costs.data());
    if (dtype == nb::dtype<double>()) return static_cast<const double*>(costs.data());
    refuse_dtype(AnyArray(costs), "costs", "uint8, uint16, int16, int32, float32 or float64");
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
                                           const std::string& metric, double limit,
                                           const nb::object& table, const nb::object& tables,
                                           bool single) {
    nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> values;
    if (!nb::try_cast(costs, values) || values.ndim() != 2 ||
        static_cast<Index>(values.shape(0)) != neighbors.sites() || values.shape(1) < 2 ||
        static_cast<Index>(values.shape(1)) > kMostLabels) {
        throw std::invalid_argument("costs: expected a contiguous array of shape (" +
                                    std::to_string(neighbors.sites()) + ", labels), 2 to " +
                                    std::to_string(kMostLabels) + " of them");
    }
    const Index labels = static_cast<Index>(values.shape(1));
    LabelProblem problem{costs_from(values), metric_from(metric, labels, limit, table), nullptr};
    if (!tables.is_none()) {
        const auto pairs = neighbors.graph_pairs();
        if (!pairs)
            throw std::invalid_argument("tables: expected the pairs of a graph, not a grid");
        problem.tables =
            Contiguous<double>(tables, {*pairs, labels, labels}, "tables", "float64").data();
    }
    return at_work([&](const Poll&) { return label_trws(neighbors, problem, single); });
}

}  // namespace

void bind_label_trws(nb::module_& m) {
    nb::class_<LabelTrws>(m, "LabelTrws",
                          "Sequential tree-reweighted message passing with any number of labels.")
        .def(nb::new_(&label_trws_from), nb::arg("neighbors"), nb::arg("costs"), nb::arg("metric"),
             nb::arg("limit"), nb::arg("table").none(), nb::arg("tables").none(), nb::arg("single"),
             nb::keep_alive<0, 2>(), nb::keep_alive<0, 6>())
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
