// What stands where a site notes its parent: an arc; or with kFresh an arc that a growing forest
// chose, so that earlier arcs may lead to a parent at the same depth; or one of two words that
// equal no arc, with or without kFresh.
#pragma once

#include <limits>

namespace dope {

template <class StoredArc>
struct Parent {
    static constexpr StoredArc kNone = std::numeric_limits<StoredArc>::max();  // free, or an orphan
    static constexpr StoredArc kRoot = kNone - 1;
    static constexpr StoredArc kArc = kNone >> 1;
    static constexpr StoredArc kFresh = kArc + 1;
    static constexpr StoredArc kMostArcs = kRoot & kArc;
};

}  // namespace dope
