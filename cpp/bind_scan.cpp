#include "at_work.h"
#include "bind.h"
#include "fingerprint.h"
#include "scan.h"
#include "units.h"

namespace dope {

namespace {

nb::tuple scan_of(nb::handle values, double factor, int most) {
    const AnyArray array = array_from(values, "values");
    const PixelView view = pixel_view(array, "values");
    const Point shape = shape_of(array);
    const Scan found =
        at_work([&](const Poll& poll) { return scan(view, shape, factor, most, poll); });
    return nb::make_tuple(found.low, found.high, found.total, found.places, found.beyond);
}

nb::bytes fingerprint_of(nb::handle values) {
    const AnyArray array = array_from(values, "values");
    const PixelView view = pixel_view(array, "values");
    const Point shape = shape_of(array);
    const Fingerprint found =
        at_work([&](const Poll& poll) { return fingerprint(view, shape, poll); });
    return nb::bytes(reinterpret_cast<const char*>(found.data()), sizeof(found));
}

template <class Unit>
nb::object units_of(const RealView& values, const Point& shape, double scale) {
    const auto sites = static_cast<std::size_t>(volume(shape));
    auto out = std::make_unique_for_overwrite<Unit[]>(sites);
    const bool fits = at_work(
        [&](const Poll& poll) { return count_units(values, shape, scale, out.get(), poll); });
    return fits ? nb::cast(array_owning(std::move(out), shape)) : nb::none();
}

nb::object whole_units(nb::handle values, double scale) {
    const AnyArray array = array_from(values, "values");
    const RealView view = real_view(array, "values");
    const Point shape = shape_of(array);
    const nb::object narrow = units_of<std::int16_t>(view, shape, scale);
    return narrow.is_none() ? units_of<std::int32_t>(view, shape, scale) : narrow;
}

}  // namespace

void bind_scan(nb::module_& m) {
    m.def("scan", &scan_of, nb::arg("values"), nb::arg("factor") = 1.0, nb::arg("most") = 20,
          "(least, greatest, sum of |x|, binary places of factor * x or None for more than `most`, "
          "flat position of the first number that is not finite or -1) of an array.");
    m.def("fingerprint", &fingerprint_of, nb::arg("values"),
          "16 bytes that are the same for the same numbers and shape, whatever type and strides, "
          "and others otherwise.");
    m.def(
        "whole_units", &whole_units, nb::arg("values"), nb::arg("scale"),
        "rint(values * scale) as int16, or int32, whichever holds them; None where neither does.");
}

}  // namespace dope
