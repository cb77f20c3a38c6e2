// The ends of a graph's pairs as Python gives them.
#pragma once

#include <optional>

#include "bind.h"
#include "flow.h"

namespace dope {

// An array with two columns, or a tuple of two arrays.
class EdgeArrays {
  public:
    explicit EdgeArrays(const nb::object& edges) {
        if (nb::isinstance<nb::tuple>(edges) && nb::len(edges) == 2) {
            const nb::object first = edges[0];
            const AnyArray found = array_from(first, "first");
            count_ = found.ndim() == 1 ? static_cast<Index>(found.shape(0)) : 0;
            first_.emplace(first, Point{count_}, "first", "int64");
            second_.emplace(nb::object(edges[1]), Point{count_}, "second", "int64");
        } else {
            const AnyArray found = array_from(edges, "edges");
            count_ = found.ndim() == 2 ? static_cast<Index>(found.shape(0)) : 0;
            first_.emplace(edges, Point{count_, 2}, "edges", "int64");
        }
    }

    Index count() const { return count_; }
    Ends ends() const {
        return second_ ? Ends(first_->data(), second_->data()) : Ends(first_->data());
    }

  private:
    Index count_ = 0;
    std::optional<Contiguous<std::int64_t>> first_;
    std::optional<Contiguous<std::int64_t>> second_;
};

}  // namespace dope
