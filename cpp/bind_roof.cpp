#include <nanobind/stl/unique_ptr.h>

#include "at_work.h"
#include "bind.h"
#include "bind_ends.h"
#include "roof_flow.h"

namespace dope {

void bind_roof(nb::module_& m) {
    nb::class_<RoofFlow>(m, "RoofFlow", "The roof dual of a graph, each going on from the last.")
        .def(nb::new_([](std::int64_t sites, const nb::object& edges, const nb::object& weights,
                         double scale, int bits) {
                 const EdgeArrays pairs(edges);
                 const Contiguous<double> values(weights, {pairs.count()}, "weights", "float64");
                 return at_work([&](const Poll&) {
                     return roof_flow(sites, pairs.ends(), values.data(),
                                      static_cast<std::size_t>(pairs.count()), scale, bits);
                 });
             }),
             nb::arg("sites"), nb::arg("edges"), nb::arg("weights"), nb::arg("scale"),
             nb::arg("bits"))
        .def(
            "minimize",
            [](RoofFlow& self, const nb::object& unary) {
                const Contiguous<double> values(unary, {self.sites()}, "unary", "float64");
                at_work([&](const Poll& poll) { self.minimize(values.data(), poll); });
            },
            nb::arg("unary"), "Minimize with this unary, going on from the flow of the last call.")
        .def(
            "change",
            [](RoofFlow& self, const nb::object& sites, const nb::object& unary) {
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
            "Minimize again where only the unary of these sites has changed, to these values.")
        .def(
            "labels",
            [](RoofFlow& self, bool of_some) {
                const auto size = static_cast<std::size_t>(self.sites());
                auto known = std::make_unique<bool[]>(size);
                auto label = std::make_unique<bool[]>(size);
                at_work([&](const Poll& poll) {
                    self.labels(of_some, known.get(), label.get(), poll);
                });
                const Point shape{self.sites()};
                return nb::make_tuple(array_owning(std::move(known), shape),
                                      array_owning(std::move(label), shape));
            },
            nb::arg("of_some") = false,
            "(which sites have a label, the labels there): those of all minima, or of one that has "
            "the most of them.")
        .def(
            "minimum",
            [](const RoofFlow& self) {
                return whole_number(at_work([&](const Poll&) { return self.minimum(); }));
            },
            "The minimum of the doubled energy in units of 1 / scale, an int.")
        .def(
            "check", [](RoofFlow& self) { at_work([&](const Poll&) { self.check(); }); },
            "Recompute slowly what must hold after minimize; RuntimeError where it does not.")
        .def_prop_ro("bytes", &RoofFlow::bytes, "Bytes held, without the lists of work at hand.");
}

}  // namespace dope
