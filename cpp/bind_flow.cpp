#include <nanobind/stl/unique_ptr.h>

#include "at_work.h"
#include "bind.h"
#include "bind_ends.h"
#include "flow.h"

namespace dope {

namespace {

// What both flows have in common.
template <class AnyFlow, class Shape>
void bind_common(nb::class_<AnyFlow>& flow, Shape shape) {
    flow.def(
            "minimize",
            [shape](AnyFlow& self, const nb::object& unary) {
                const Contiguous<double> values(unary, shape(self), "unary", "float64");
                at_work([&](const Poll& poll) { self.minimize(values.data(), poll); });
            },
            nb::arg("unary"), "Minimize with this unary, going on from the flow of the last call.")
        .def(
            "change",
            [](AnyFlow& self, const nb::object& sites, const nb::object& unary) {
                const AnyArray found = array_from(sites, "sites");
                const Index count = found.ndim() == 1 ? static_cast<Index>(found.shape(0)) : 0;
                const Contiguous<std::int64_t> places(sites, {count}, "sites", "int64");
                const Contiguous<double> values(unary, {count}, "unary", "float64");
                at_work([&](const Poll& poll) {
                    self.change(places.data(), values.data(), static_cast<std::size_t>(count),
                                poll);
                });
            },
            nb::arg("sites"), nb::arg("unary"),
            "Minimize again where only the unary of these sites (flat positions) has changed, to "
            "these values; the work is in proportion to the change.")
        .def(
            "labels",
            [shape](AnyFlow& self, bool largest) {
                const Point extents = shape(self);
                auto out = std::make_unique<bool[]>(static_cast<std::size_t>(volume(extents)));
                at_work([&](const Poll& poll) { self.labels(largest, out.get(), poll); });
                return array_owning(std::move(out), extents);
            },
            nb::arg("largest") = false, "The minimizer with the fewest True, or with the most.")
        .def(
            "value",
            [](const AnyFlow& self) { return at_work([&](const Poll&) { return self.value(); }); },
            "The minimum, rounded down to a float.")
        .def(
            "minimum",
            [](const AnyFlow& self) {
                return whole_number(at_work([&](const Poll&) { return self.minimum(); }));
            },
            "The minimum in units of 1 / scale, an int.")
        .def(
            "check", [](AnyFlow& self) { at_work([&](const Poll&) { self.check(); }); },
            "Recompute slowly what must hold after minimize; RuntimeError where it does not.")
        .def_prop_ro("bytes", &AnyFlow::bytes, "Bytes held, without the lists of work at hand.");
}

}  // namespace

void bind_flow(nb::module_& m) {
    nb::class_<Cancel>(m, "Cancel",
                       "Work of the core in `with cancel:` stops soon after `cancel.cancel()`.")
        .def(nb::init<>())
        .def("cancel", &Cancel::cancel, "Stop the work, from whichever thread.")
        .def_prop_ro("cancelled", &Cancel::cancelled)
        .def(
            "__enter__",
            [](Cancel& self) -> Cancel& {
                self.enter();
                return self;
            },
            nb::rv_policy::reference)
        .def("__exit__", [](Cancel& self, const nb::args&) { self.leave(); });
    cancelled_error() = nb::handle(PyErr_NewExceptionWithDoc(
        "dope._core.Cancelled", "Raised by work that was cancelled.", nullptr, nullptr));
    m.attr("Cancelled") = nb::borrow(cancelled_error());

    nb::class_<GridFlow> grid(m, "GridFlow",
                              "Minimum cuts on a grid, each going on from the last.");
    grid.def(
        nb::new_([](const GridWeights& weights, double scale, int bits) {
            return at_work([&](const Poll& poll) { return grid_flow(weights, scale, bits, poll); });
        }),
        nb::arg("weights"), nb::arg("scale"), nb::arg("bits"));
    bind_common(grid, [](const GridFlow& flow) { return flow.shape(); });
    grid.def(
            "refill",
            [](GridFlow& self, const GridWeights& weights, double scale) {
                at_work([&](const Poll& poll) { self.refill(weights, scale, poll); });
            },
            nb::arg("weights"), nb::arg("scale"),
            "As if new, for other weights on the same grid and kernel, in the memory it holds.")
        .def_static(
            "bytes_needed",
            [](const nb::sequence& shape, const nb::object& offsets, int bits) {
                const Point extents = grid_shape(shape);
                return grid_flow_bytes(extents, offsets_from(offsets, extents.size()), bits);
            },
            nb::arg("shape"), nb::arg("offsets"), nb::arg("bits"), "What `bytes` will be.");

    nb::class_<GraphFlow> graph(m, "GraphFlow",
                                "Minimum cuts on a sparse graph, each going on from the last.");
    graph.def(nb::new_([](std::int64_t sites, const nb::object& edges, const nb::object& weights,
                          double scale, int bits) {
                  const EdgeArrays pairs(edges);
                  const Contiguous<double> values(weights, {pairs.count()}, "weights", "float64");
                  return at_work([&](const Poll&) {
                      return graph_flow(sites, pairs.ends(), values.data(),
                                        static_cast<std::size_t>(pairs.count()), scale, bits);
                  });
              }),
              nb::arg("sites"), nb::arg("edges"), nb::arg("weights"), nb::arg("scale"),
              nb::arg("bits"));
    bind_common(graph, [](const GraphFlow& flow) { return Point{flow.sites()}; });
    graph.def_static("bytes_needed", &graph_flow_bytes, nb::arg("sites"), nb::arg("edges"),
                     nb::arg("bits"), "What `bytes` will be.");
}

}  // namespace dope
