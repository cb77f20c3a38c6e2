#include <nanobind/stl/unique_ptr.h>

#include "at_work.h"
#include "bind.h"
#include "trws.h"

namespace dope {

void bind_trws(nb::module_& m) {
    nb::class_<Trws>(m, "Trws", "Sequential tree-reweighted message passing. Arrays are flat.")
        .def(nb::new_([](const Neighbors& neighbors) {
                 return at_work([&](const Poll&) { return trws(neighbors); });
             }),
             nb::arg("neighbors"))
        .def(
            "run",
            [](const Trws& self, const nb::object& unary, Index rounds, double tolerance,
               double unit) {
                const Contiguous<double> prices(unary, {self.sites()}, "unary", "float64");
                const TrwsFound found = at_work([&](const Poll& poll) {
                    return self.run(prices.data(), {rounds, tolerance, unit}, poll);
                });
                auto labels = fresh_array<bool>({self.sites()}, [&](bool* out) {
                    std::copy(found.labels.begin(), found.labels.end(), out);
                });
                return nb::make_tuple(labels, found.bound, found.rounding_error, found.rounds);
            },
            nb::arg("unary"), nb::arg("rounds"), nb::arg("tolerance"), nb::arg("unit"));
}

}  // namespace dope
