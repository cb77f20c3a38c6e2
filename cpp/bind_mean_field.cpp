#include <nanobind/stl/unique_ptr.h>

#include "at_work.h"
#include "bind.h"
#include "mean_field.h"

namespace dope {

void bind_mean_field(nb::module_& m) {
    nb::class_<MeanField>(m, "MeanField", "Mean field that cools down. Arrays are flat.")
        .def(nb::new_([](const Neighbors& neighbors) {
                 return at_work([&](const Poll&) { return mean_field(neighbors); });
             }),
             nb::arg("neighbors"))
        .def_prop_ro("strength", &MeanField::strength)
        .def_prop_ro("mean_strength", &MeanField::mean_strength)
        .def(
            "run",
            [](const MeanField& self, const nb::object& unary, double hot, double cold,
               double factor) {
                const Contiguous<double> prices(unary, {self.sites()}, "unary", "float64");
                if (!(cold > 0.0 && factor > 0.0 && factor < 1.0 && std::isfinite(hot))) {
                    throw std::invalid_argument(
                        "hot, cold and factor are " + std::to_string(hot) + ", " +
                        std::to_string(cold) + " and " + std::to_string(factor) +
                        ": expected finite temperatures above 0 and a factor between 0 and 1");
                }
                auto q = std::make_unique<double[]>(static_cast<std::size_t>(self.sites()));
                at_work([&](const Poll& poll) {
                    self.run(prices.data(), {hot, cold, factor}, q.get(), poll);
                });
                return array_owning(std::move(q), {self.sites()});
            },
            nb::arg("unary"), nb::arg("hot"), nb::arg("cold"), nb::arg("factor"));
}

}  // namespace dope
