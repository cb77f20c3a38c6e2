#include "bind.h"
#include "grid_coupling.h"

namespace dope {

namespace {

GridCoupling coupling_from(const GridWeights& weights, const nb::sequence& start,
                           const nb::sequence& stop, const nb::sequence& count_lists) {
    const Point& region = weights.shape();
    Box block{point_from(start, region.size(), "start"), point_from(stop, region.size(), "stop")};
    for (std::size_t a = 0; a < region.size(); ++a) {
        if (block.low[a] < 0 || block.low[a] >= block.high[a] || block.high[a] > region[a]) {
            throw std::invalid_argument("the block from " + text(block.low) + " to " +
                                        text(block.high) + ": expected sites inside the region " +
                                        text(region));
        }
    }
    auto counts = counts_from(count_lists, region);
    for (const auto& axis : counts) {
        for (const double count : axis) {
            if (!(count >= 1.0)) {
                throw std::invalid_argument("counts holds " + std::to_string(count) +
                                            ": expected numbers >= 1");
            }
        }
    }
    return GridCoupling(weights, std::move(block), std::move(counts));
}

}  // namespace

void bind_coupling(nb::module_& m) {
    nb::class_<GridCoupling>(m, "GridCoupling",
                             "What a block of a grid feels of the others: A, its transpose, and "
                             "where it is not zero.")
        .def(
            "__init__",
            [](GridCoupling* self, const GridWeights& weights, const nb::sequence& start,
               const nb::sequence& stop, const nb::sequence& counts) {
                new (self) GridCoupling(coupling_from(weights, start, stop, counts));
            },
            nb::arg("weights"), nb::arg("start"), nb::arg("stop"), nb::arg("counts"))
        .def(
            "apply",
            [](const GridCoupling& self, const nb::object& y) {
                const Contiguous<double> values(y, self.region(), "y", "float64");
                return fresh_array<double>(self.block_shape(),
                                           [&](double* out) { self.apply(values.data(), out); });
            },
            nb::arg("y"), "A y, from the region to the block.")
        .def(
            "transpose",
            [](const GridCoupling& self, const nb::object& labels) {
                const Contiguous<bool> values(labels, self.block_shape(), "labels", "bool");
                return fresh_array<double>(
                    self.region(), [&](double* out) { self.transpose(values.data(), out); });
            },
            nb::arg("labels"), "A' labels, from the block to the region.")
        .def(
            "strength",
            [](const GridCoupling& self) {
                return fresh_array<double>(self.block_shape(),
                                           [&](double* out) { self.strength(out); });
            },
            "The sum of the absolute weights of A at each site of the block.")
        .def(
            "coupled",
            [](const GridCoupling& self) {
                return fresh_array<bool>(self.block_shape(), [&](bool* out) { self.coupled(out); });
            },
            "The sites of the block that other blocks hold, or that neighbor such a site or one "
            "outside.");
}

}  // namespace dope
