#include <nanobind/stl/unique_ptr.h>

#include "at_work.h"
#include "bind.h"
#include "distances.h"
#include "standpoint.h"

namespace dope {

namespace {

// As bytes: nobody promises that a NumPy bool is 0 or 1 in memory.
class LabelBytes {
  public:
    LabelBytes(nb::handle object, const Point& shape) : values_(object, shape, "labels", "bool") {}
    const std::uint8_t* data() const {
        return reinterpret_cast<const std::uint8_t*>(values_.data());
    }

  private:
    Contiguous<bool> values_;
};

template <class T>
nb::ndarray<nb::numpy, T> copied(const Standpoint& self, const auto* values) {
    return fresh_array<T>({self.sites()},
                          [&](T* out) { std::copy(values, values + self.sites(), out); });
}

}  // namespace

void bind_standpoint(nb::module_& m) {
    nb::class_<Neighbors>(m, "Neighbors",
                          "Every site's neighbors, with the weights of their pairs.")
        .def_static(
            "grid",
            [](const GridWeights& weights) {
                return at_work([&](const Poll&) { return Neighbors(weights); });
            },
            nb::arg("weights"))
        .def_static(
            "graph",
            [](Index sites, const nb::object& edges, const nb::object& weights) {
                const Edges pairs(edges, weights);
                require_sites(sites);
                return at_work([&](const Poll&) {
                    return Neighbors(sites, pairs.ends(), pairs.weights(), pairs.pairs());
                });
            },
            nb::arg("sites"), nb::arg("edges"), nb::arg("weights"));

    nb::class_<Standpoint>(m, "Standpoint",
                           "An energy seen from labels: what every flip costs, kept up to date "
                           "while labels move. Arrays are flat.")
        .def(nb::new_([](const Neighbors& neighbors) {
                 return at_work([&](const Poll&) { return standpoint(neighbors); });
             }),
             nb::arg("neighbors"))
        .def(
            "stand",
            [](Standpoint& self, const nb::object& unary, const nb::object& labels) {
                const Contiguous<double> values(unary, {self.sites()}, "unary", "float64");
                const LabelBytes bytes(labels, {self.sites()});
                at_work([&](const Poll&) { self.stand(values.data(), bytes.data()); });
            },
            nb::arg("unary"), nb::arg("labels"))
        .def(
            "falls",
            [](const Standpoint& self, const nb::object& to) {
                const LabelBytes bytes(to, {self.sites()});
                const Falls found = at_work([&](const Poll&) { return self.falls(bytes.data()); });
                return nb::make_tuple(found.actual, found.predicted);
            },
            nb::arg("to"))
        .def(
            "move",
            [](Standpoint& self, const nb::object& to) {
                const LabelBytes bytes(to, {self.sites()});
                at_work([&](const Poll&) { self.move(bytes.data()); });
            },
            nb::arg("to"))
        .def(
            "descend",
            [](Standpoint& self, Index most) {
                return at_work([&](const Poll&) { return self.descend(most); });
            },
            nb::arg("most"))
        .def(
            "repelled_before",
            [](const Standpoint& self, const nb::object& rank) {
                const Contiguous<std::int64_t> ranks(rank, {self.sites()}, "rank", "int64");
                return fresh_array<double>(
                    {self.sites()}, [&](double* out) { self.repelled_before(ranks.data(), out); });
            },
            nb::arg("rank"))
        .def("labels", [](const Standpoint& self) { return copied<bool>(self, self.labels()); })
        .def("prices", [](const Standpoint& self) { return copied<double>(self, self.prices()); })
        .def("repulsion",
             [](const Standpoint& self) { return copied<double>(self, self.repulsion()); })
        .def("tangents",
             [](const Standpoint& self) { return copied<double>(self, self.tangents()); });
    m.def(
        "distances",
        [](const nb::object& labels) {
            const Point shape = shape_of(array_from(labels, "labels"));
            const LabelBytes bytes(labels, shape);
            return fresh_array<double>(shape,
                                       [&](double* out) { distances(shape, bytes.data(), out); });
        },
        nb::arg("labels"));
}

}  // namespace dope
