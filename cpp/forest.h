// What a search forest of MaxFlow is made of, apart from the levels and parents of its sites.
#pragma once

#include <vector>

#include "flow_types.h"

namespace dope {

// The signs of the two forests.
inline constexpr int kSource = +1;
inline constexpr int kSink = -1;

struct Forest {
    Level depth = 1;  // of the frontier
    Level most = 1;   // how deep a site may be: depth, or one more while growing
    // Hold all unscanned sites at `depth` and at `depth` + 1; some entries are stale.
    std::vector<Site> frontier;
    std::vector<Site> next;

    // At depth 1 the frontier is simply all sites of that depth: they are the roots, often half of
    // all sites, and listing them would take as much room as their levels.
    bool listed() const { return depth > 1; }
    bool closed() const { return listed() && frontier.empty(); }

    // Called when a site of the forest hangs at this depth, as yet unscanned there.
    void enlist(Site v, Level at) {
        if (at == depth && listed()) frontier.push_back(v);
        if (at == depth + 1) next.push_back(v);
    }
};

// The way from a site up to its root.
struct Path {
    struct Step {
        Site site;
        Arc arc;  // to the parent
    };
    std::vector<Step> steps;
    Site root = 0;
};

struct Orphan {
    Site site;
    Arc from;  // earlier arcs lead to no parent at the site's depth
};

}  // namespace dope
