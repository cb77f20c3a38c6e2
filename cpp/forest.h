// What a search forest of MaxFlow is made of, apart from the levels and parents of its sites.
#pragma once

#include <utility>
#include <vector>

#include "flow_types.h"

namespace dope {

// The signs of the two forests.
inline constexpr int kSource = +1;
inline constexpr int kSink = -1;

// A vector whose push is small enough to be inlined where it counts.
template <class T>
class Stack {
  public:
    bool empty() const { return size_ == 0; }
    std::size_t size() const { return size_; }
    T operator[](std::size_t k) const { return items_[k]; }
    T top() const { return items_[size_ - 1]; }
    const T* begin() const { return items_.data(); }
    const T* end() const { return items_.data() + size_; }
    void push(T item) {
        if (size_ == items_.size()) [[unlikely]]
            items_.resize(2 * size_ + 64);
        items_[size_++] = item;
    }
    T pop() { return items_[--size_]; }
    void clear() { size_ = 0; }
    void swap(Stack& other) {
        items_.swap(other.items_);
        std::swap(size_, other.size_);
    }

  private:
    std::vector<T> items_;
    std::size_t size_ = 0;
};

struct Orphan {
    Site site;
    Arc from;  // earlier arcs lead to no parent at the site's depth
};

struct Forest {
    Level depth = 1;  // of the frontier
    Level most = 1;   // how deep a site may be: depth, or one more while growing
    // Hold all unscanned sites at `depth` and at `depth` + 1; some entries are stale.
    Stack<Site> frontier;
    Stack<Site> next;
    Stack<Orphan> orphans;  // of one path, deepest first
    Stack<Site> torn;       // sites with open arcs that break invariant 3 or 4

    // At depth 1 the frontier is simply all sites of that depth: they are the roots, often half of
    // all sites, and listing them would take as much room as their levels.
    bool listed() const { return depth > 1; }
    bool closed() const { return listed() && frontier.empty(); }

    // Called when a site of the forest hangs at this depth, as yet unscanned there.
    void enlist(Site v, Level at) {
        if (at == depth && listed()) frontier.push(v);
        if (at == depth + 1) next.push(v);
    }
};

// The way from a site up to its root.
struct Path {
    struct Step {
        Site site;
        Arc arc;  // to the parent
    };
    Stack<Step> steps;
    Site root = 0;
};

}  // namespace dope
