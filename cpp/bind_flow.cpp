#include <chrono>

#include "bind.h"
#include "flow.h"

namespace dope {

namespace {

// Lets Python see Ctrl-C during long work; true if there was one. Looks at the clock first, since
// taking the GIL from many threads all the time would hold them up.
class SignalPoll {
  public:
    bool operator()() {
        constexpr auto kBetween = std::chrono::milliseconds(50);
        const auto now = std::chrono::steady_clock::now();
        if (now - last_ < kBetween) return false;
        last_ = now;
        const nb::gil_scoped_acquire gil;
        return PyErr_CheckSignals() != 0;
    }

  private:
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

template <class AnyFlow>
void minimize(AnyFlow& flow, nb::handle unary, const Point& shape) {
    const Contiguous<double> values(unary, shape, "unary", "float64");
    try {
        const nb::gil_scoped_release release;
        flow.minimize(values.data(), SignalPoll());
    } catch (const Interrupted&) {
        throw nb::python_error();
    }
}

template <class AnyFlow>
nb::ndarray<nb::numpy, bool> labels(AnyFlow& flow, bool largest, const Point& shape) {
    return fresh_array<bool>(shape, [&](bool* out) { flow.labels(largest, out); });
}

// What both flows have in common.
template <class AnyFlow, class Shape>
void bind_common(nb::class_<AnyFlow>& flow, Shape shape) {
    flow.def(
            "minimize",
            [shape](AnyFlow& self, const nb::object& unary) { minimize(self, unary, shape(self)); },
            nb::arg("unary"), "Minimize with this unary, going on from the flow of the last call.")
        .def(
            "labels",
            [shape](AnyFlow& self, bool largest) { return labels(self, largest, shape(self)); },
            nb::arg("largest") = false, "The minimizer with the fewest True, or with the most.")
        .def("value", &AnyFlow::value, nb::call_guard<nb::gil_scoped_release>(), "The minimum.")
        .def("check", &AnyFlow::check, nb::call_guard<nb::gil_scoped_release>(),
             "Recompute slowly what must hold after minimize; RuntimeError where it does not.")
        .def_prop_ro("bytes", &AnyFlow::bytes, "Bytes held, without the lists of work at hand.");
}

}  // namespace

void bind_flow(nb::module_& m) {
    nb::class_<GridFlow> grid(m, "GridFlow",
                              "Minimum cuts on a grid, each going on from the last.");
    grid.def(nb::init<const GridWeights&, double, int>(), nb::arg("weights"), nb::arg("scale"),
             nb::arg("bits"), nb::call_guard<nb::gil_scoped_release>());
    bind_common(grid, [](const GridFlow& flow) { return flow.shape(); });
    grid.def_static(
        "bytes_needed",
        [](const nb::sequence& shape, const nb::object& offsets, int bits) {
            const Point extents = grid_shape(shape);
            return GridFlow::bytes_needed(extents, offsets_from(offsets, extents.size()), bits);
        },
        nb::arg("shape"), nb::arg("offsets"), nb::arg("bits"), "What `bytes` will be.");

    nb::class_<GraphFlow> graph(m, "GraphFlow",
                                "Minimum cuts on a sparse graph, each going on from the last.");
    graph.def(
        "__init__",
        [](GraphFlow* self, std::int64_t sites, const nb::object& edges, const nb::object& weights,
           double scale, int bits) {
            const AnyArray found = array_from(edges, "edges");
            const Index pairs = found.ndim() == 2 ? static_cast<Index>(found.shape(0)) : 0;
            const Contiguous<std::int64_t> ends(edges, {pairs, 2}, "edges", "int64");
            const Contiguous<double> values(weights, {pairs}, "weights", "float64");
            const nb::gil_scoped_release release;
            new (self) GraphFlow(sites, ends.data(), values.data(), static_cast<std::size_t>(pairs),
                                 scale, bits);
        },
        nb::arg("sites"), nb::arg("edges"), nb::arg("weights"), nb::arg("scale"), nb::arg("bits"));
    bind_common(graph, [](const GraphFlow& flow) { return Point{flow.sites()}; });
    graph.def_static("bytes_needed", &GraphFlow::bytes_needed, nb::arg("sites"), nb::arg("edges"),
                     nb::arg("bits"), "What `bytes` will be.");
}

}  // namespace dope
