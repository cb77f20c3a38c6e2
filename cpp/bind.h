// Guards at the door of the native core: what Python passes is checked here and trusted after.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "at_work.h"
#include "box.h"
#include "exact_sum.h"
#include "view.h"

namespace dope {

namespace nb = nanobind;

void bind_sums(nb::module_& m);
void bind_scan(nb::module_& m);
void bind_edges(nb::module_& m);
void bind_weights(nb::module_& m);
void bind_flow(nb::module_& m);
void bind_roof(nb::module_& m);
void bind_coupling(nb::module_& m);
void bind_blocks(nb::module_& m);
void bind_standpoint(nb::module_& m);
void bind_trws(nb::module_& m);
void bind_label_trws(nb::module_& m);
void bind_mean_field(nb::module_& m);
void bind_search(nb::module_& m);

// An exact sum as an int, in units of 2^ExactSum::kLeast; or of whole numbers in units of 1.
nb::object integer(const ExactSum& sum);
nb::object whole_number(const ExactSum& sum);

// Any array in main memory, of any type, read only.
using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;

inline AnyArray array_from(nb::handle object, const std::string& name) {
    AnyArray array;
    if (!nb::try_cast(object, array)) {
        const std::string type = nb::type_name(object.type()).c_str();
        throw nb::type_error((name + " is a " + type + ": expected a NumPy array").c_str());
    }
    return array;
}

inline Point shape_of(const AnyArray& array) {
    Point shape;
    for (std::size_t a = 0; a < array.ndim(); ++a) {
        shape.push_back(static_cast<Index>(array.shape(a)));
    }
    return shape;
}

inline void require_shape(const AnyArray& array, const Point& shape, const std::string& name) {
    if (shape_of(array) == shape) return;
    throw std::invalid_argument(name + " has shape " + text(shape_of(array)) + ": expected " +
                                text(shape));
}

inline std::string dtype_name(const AnyArray& array) {
    const auto dtype = array.dtype();
    const auto code = static_cast<nb::dlpack::dtype_code>(dtype.code);
    const char* kind = code == nb::dlpack::dtype_code::Float     ? "float"
                       : code == nb::dlpack::dtype_code::Int     ? "int"
                       : code == nb::dlpack::dtype_code::UInt    ? "uint"
                       : code == nb::dlpack::dtype_code::Bool    ? "bool"
                       : code == nb::dlpack::dtype_code::Complex ? "complex"
                                                                 : "other";
    return kind + std::to_string(dtype.bits);
}

[[noreturn]] inline void refuse_dtype(const AnyArray& array, const std::string& name,
                                      const std::string& expected) {
    throw nb::type_error(
        (name + " has dtype " + dtype_name(array) + ": expected " + expected).c_str());
}

template <class T>
void require_dtype(const AnyArray& array, const std::string& name, const char* expected) {
    if (array.dtype() != nb::dtype<T>()) refuse_dtype(array, name, expected);
}

// A view of the array's memory, which stays alive with it.
template <class T>
View<T> view_of(const AnyArray& array) {
    View<T> view;
    view.start = static_cast<const T*>(array.data());
    for (std::size_t a = 0; a < array.ndim(); ++a) view.strides.push_back(array.stride(a));
    view.keep = std::shared_ptr<const void>(new AnyArray(array), [](const void* owner) {
        const nb::gil_scoped_acquire gil;
        delete static_cast<const AnyArray*>(owner);
    });
    return view;
}

inline RealView real_view(const AnyArray& array, const std::string& name) {
    if (array.dtype() == nb::dtype<float>()) return view_of<float>(array);
    if (array.dtype() == nb::dtype<double>()) return view_of<double>(array);
    refuse_dtype(array, name, "float32 or float64");
}

inline PixelView pixel_view(const AnyArray& array, const std::string& name) {
    if (array.dtype() == nb::dtype<std::uint8_t>()) return view_of<std::uint8_t>(array);
    if (array.dtype() == nb::dtype<std::uint16_t>()) return view_of<std::uint16_t>(array);
    if (array.dtype() == nb::dtype<std::int16_t>()) return view_of<std::int16_t>(array);
    if (array.dtype() == nb::dtype<float>()) return view_of<float>(array);
    if (array.dtype() == nb::dtype<double>()) return view_of<double>(array);
    refuse_dtype(array, name, "uint8, uint16, int16, float32 or float64");
}

// The array's elements in row-major order: in place if they lie so, otherwise copied.
template <class T>
class Contiguous {
  public:
    Contiguous(nb::handle object, const Point& shape, const std::string& name, const char* dtype) {
        const AnyArray found = array_from(object, name);
        require_dtype<T>(found, name, dtype);
        require_shape(found, shape, name);
        array_ = nb::cast<Array>(object);
    }
    const T* data() const { return array_.data(); }

  private:
    using Array = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
    Array array_;
};

// A NumPy array of this shape that owns this memory.
template <class T>
nb::ndarray<nb::numpy, T> array_owning(std::unique_ptr<T[]> memory, const Point& shape) {
    std::vector<std::size_t> extents(shape.begin(), shape.end());
    T* start = memory.get();
    const nb::capsule owner(memory.release(),
                            [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::ndarray<nb::numpy, T>(start, extents.size(), extents.data(), owner);
}

// A new NumPy array of this shape; `fill(T*)` writes all of it without the GIL, which also is the
// first time that its memory is touched.
template <class T, class Fill>
nb::ndarray<nb::numpy, T> fresh_array(const Point& shape, Fill&& fill) {
    std::unique_ptr<T[]> memory(new T[static_cast<std::size_t>(volume(shape))]);
    at_work([&](const Poll&) { fill(memory.get()); });
    return array_owning(std::move(memory), shape);
}

// A graph's edges, (pairs, 2), and their weights.
class Edges {
  public:
    Edges(nb::handle edges, nb::handle weights)
        : pairs_(number_of(edges)),
          ends_(edges, {pairs_, 2}, "edges", "int64"),
          weights_(weights, {pairs_}, "weights", "float64") {}
    Index pairs() const { return pairs_; }
    const std::int64_t* ends() const { return ends_.data(); }
    const double* weights() const { return weights_.data(); }

  private:
    static Index number_of(nb::handle edges) {
        const AnyArray found = array_from(edges, "edges");
        return found.ndim() == 2 ? static_cast<Index>(found.shape(0)) : 0;
    }
    Index pairs_;
    Contiguous<std::int64_t> ends_;
    Contiguous<double> weights_;
};

inline void require_sites(Index sites) {
    if (sites < 0) {
        throw std::invalid_argument("sites is " + std::to_string(sites) + ": expected 0 or more");
    }
}

inline Point point_from(const nb::sequence& numbers) {
    Point point;
    for (const nb::handle number : numbers) point.push_back(nb::cast<Index>(number));
    return point;
}

inline Point point_from(const nb::sequence& numbers, std::size_t axes, const std::string& name) {
    Point point = point_from(numbers);
    if (point.size() != axes) {
        throw std::invalid_argument(name + " has " + std::to_string(point.size()) +
                                    " entries: expected " + std::to_string(axes));
    }
    return point;
}

// One offset per row, d columns.
inline std::vector<Point> offsets_from(nb::handle object, std::size_t d) {
    const AnyArray array = array_from(object, "offsets");
    require_dtype<std::int64_t>(array, "offsets", "int64");
    if (array.ndim() != 2 || array.shape(1) != d) {
        throw std::invalid_argument("offsets has shape " + text(shape_of(array)) +
                                    ": expected (h, " + std::to_string(d) + ")");
    }
    const auto view = view_of<std::int64_t>(array);
    std::vector<Point> offsets;
    for (std::size_t m = 0; m < array.shape(0); ++m) {
        Point offset;
        for (std::size_t a = 0; a < d; ++a) {
            offset.push_back(*view.at({static_cast<Index>(m), static_cast<Index>(a)}));
        }
        offsets.push_back(offset);
    }
    return offsets;
}

inline std::vector<double> doubles_from(nb::handle object, Index length, const std::string& name) {
    const Contiguous<double> values(object, {length}, name, "float64");
    return std::vector<double>(values.data(), values.data() + length);
}

// One list of numbers per axis, as long as the axis.
inline std::vector<std::vector<double>> counts_from(const nb::sequence& lists, const Point& shape) {
    std::vector<std::vector<double>> counts;
    for (const nb::handle list : lists) {
        const std::size_t a = counts.size();
        if (a == shape.size()) break;
        counts.push_back(doubles_from(list, shape[a], "counts[" + std::to_string(a) + "]"));
    }
    if (nb::len(lists) != shape.size()) {
        throw std::invalid_argument("counts has " + std::to_string(nb::len(lists)) +
                                    " entries: expected one per axis, " +
                                    std::to_string(shape.size()));
    }
    return counts;
}

inline Point grid_shape(const nb::sequence& numbers) {
    Point shape = point_from(numbers);
    const bool positive = std::all_of(shape.begin(), shape.end(), [](Index n) { return n > 0; });
    if (shape.empty() || !positive) {
        throw std::invalid_argument("shape is " + text(shape) +
                                    ": expected at least one axis, each of at least one site");
    }
    volume(shape);
    return shape;
}

}  // namespace dope
