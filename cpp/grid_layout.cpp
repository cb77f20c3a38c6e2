#include "grid_layout.h"

#include <cstdlib>

namespace dope {

namespace {

// So that an arc fits 15 bits, two of whose values are taken.
constexpr std::size_t kMostGridArcs = 32766;

bool has_pairs(const Point& shape, const Point& offset) {
    return !tails(whole(shape), shape, offset).empty();
}

}  // namespace

GridLayout::GridLayout(const Point& grid, const std::vector<Point>& all_offsets) : shape(grid) {
    Point padded = shape;
    for (std::size_t m = 0; m < all_offsets.size(); ++m) {
        if (!has_pairs(shape, all_offsets[m])) continue;
        used.push_back({m, all_offsets[m], 0});
        for (std::size_t a = 0; a < shape.size(); ++a) {
            padded[a] = std::max(padded[a], shape[a] + std::abs(all_offsets[m][a]));
        }
    }
    if (2 * used.size() > kMostGridArcs) {
        throw std::invalid_argument("the kernel has " + std::to_string(2 * used.size()) +
                                    " neighbors: expected at most " +
                                    std::to_string(kMostGridArcs));
    }
    const auto refuse_size = [&] {
        throw std::invalid_argument("the grid " + text(shape) + " has more than " +
                                    std::to_string(kMostSites) +
                                    " sites with its padding: expected smaller blocks");
    };
    if (volume(padded) > kMostSites) refuse_size();
    strides = row_major_strides(padded);

    Index reach = 0;
    for (const Used& use : used) reach = std::max(reach, std::abs(dot(use.step, strides)));
    Index body = volume(shape) > 0 ? 1 : 0;
    for (std::size_t a = 0; a < shape.size(); ++a) body += (shape[a] - 1) * strides[a];
    first = reach;
    sites = reach + body + reach;
    if (sites > kMostSites) refuse_size();
    for (const Used& use : used) {
        const auto step = static_cast<Site>(dot(use.step, strides));
        steps.push_back(step);
        steps.push_back(-step);
    }
    std::sort(steps.begin(), steps.end());
    if (std::adjacent_find(steps.begin(), steps.end()) != steps.end()) {
        throw std::invalid_argument(
            "an offset is zero, or there twice, or there with its opposite: expected every pair of "
            "neighbors once");
    }
    number_arcs();
}

void GridLayout::add_idle_arcs(std::size_t arcs) {
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2), arcs - steps.size(),
                 0);
    number_arcs();
}

void GridLayout::number_arcs() {
    for (Used& use : used) {
        const auto step = static_cast<Site>(dot(use.step, strides));
        const auto place = std::lower_bound(steps.begin(), steps.end(), step);
        use.arc = static_cast<Arc>(place - steps.begin());
    }
}

}  // namespace dope
