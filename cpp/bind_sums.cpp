#include "at_work.h"
#include "bind.h"
#include "exact_run.h"

namespace dope {

namespace {

// Digits as the bytes of one number, the lowest first.
nb::object from_digits(const ExactSum& sum, std::size_t first) {
    if (!sum.finite()) throw std::overflow_error("a cost is infinite: expected finite numbers");
    const auto digits = sum.digits();
    std::string bytes;
    for (std::size_t d = first; d < digits.size(); ++d) {
        const int width = d + 1 < digits.size() ? 32 : 64;  // the last one has the sign
        for (int shift = 0; shift < width; shift += 8) {
            bytes.push_back(static_cast<char>(digits[d] >> shift & 0xFF));
        }
    }
    const nb::handle type(reinterpret_cast<PyObject*>(&PyLong_Type));
    return type.attr("from_bytes")(nb::bytes(bytes.data(), bytes.size()), "little",
                                   nb::arg("signed") = true);
}

nb::object sum_of(nb::handle values, const nb::object& where) {
    const AnyArray array = array_from(values, "values");
    const RealView numbers = real_view(array, "values");
    const Point shape = shape_of(array);
    std::optional<MaskView> mask;
    if (!where.is_none()) {
        const AnyArray chosen = array_from(where, "where");
        require_shape(chosen, shape, "where");
        require_dtype<bool>(chosen, "where", "bool");
        mask = view_of<std::uint8_t>(chosen);  // nobody promises that a NumPy bool is 0 or 1
    }
    return integer(
        at_work([&](const Poll& poll) { return exact_sum(numbers, shape, mask, poll); }));
}

}  // namespace

nb::object integer(const ExactSum& sum) { return from_digits(sum, 0); }
nb::object whole_number(const ExactSum& sum) { return from_digits(sum, -ExactSum::kLeast / 32); }

void bind_sums(nb::module_& m) {
    m.attr("EXACT_PLACES") = -ExactSum::kLeast;
    m.def("exact_sum", &sum_of, nb::arg("values"), nb::arg("where") = nb::none(),
          "The sum of an array, where a mask says so if there is one: an int in units of "
          "2^-EXACT_PLACES.");
}

}  // namespace dope
