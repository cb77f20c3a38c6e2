#include "bind.h"
#include "exact_sum.h"

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

template <class Value>
ExactSum sum_of(nb::handle values, const Point& shape, const nb::object& where) {
    const Contiguous<Value> numbers(values, shape, "values", "float32 or float64");
    const Index count = volume(shape);
    ExactSum sum;
    if (where.is_none()) {
        at_work([&](const Poll&) {
            in_pieces(count, [&](Index low, Index high) {
                for (Index i = low; i < high; ++i) sum.add(double{numbers.data()[i]});
            });
        });
        return sum;
    }
    const Contiguous<bool> chosen(where, shape, "where", "bool");
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(chosen.data());
    at_work([&](const Poll&) {
        in_pieces(count, [&](Index low, Index high) {
            for (Index i = low; i < high; ++i) {
                if (bytes[i] != 0) sum.add(double{numbers.data()[i]});
            }
        });
    });
    return sum;
}

nb::object exact_sum(nb::handle values, const nb::object& where) {
    const AnyArray array = array_from(values, "values");
    const Point shape = shape_of(array);
    const bool narrow = array.dtype() == nb::dtype<float>();
    return integer(narrow ? sum_of<float>(values, shape, where)
                          : sum_of<double>(values, shape, where));
}

}  // namespace

nb::object integer(const ExactSum& sum) { return from_digits(sum, 0); }
nb::object whole_number(const ExactSum& sum) { return from_digits(sum, -ExactSum::kLeast / 32); }

void bind_sums(nb::module_& m) {
    m.attr("EXACT_PLACES") = -ExactSum::kLeast;
    m.def("exact_sum", &exact_sum, nb::arg("values"), nb::arg("where") = nb::none(),
          "The sum of an array, where a mask says so if there is one: an int in units of "
          "2^-EXACT_PLACES.");
}

}  // namespace dope
