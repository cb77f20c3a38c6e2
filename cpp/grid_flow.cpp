#include "grid_flow_maker.h"

namespace dope {

namespace {

// make(a maker), for the first store that suits the kernel.
template <class Make>
auto with_maker(const GridLayout& layout, int bits, Make&& make) {
    return with_width(bits, [&](auto width) {
        using Capacity = decltype(width);
        if (Few4<Capacity>::suits(layout)) return make(GridFlowMaker<Few4<Capacity>>());
        if (Few6<Capacity>::suits(layout)) return make(GridFlowMaker<Few6<Capacity>>());
        if (Few8<Capacity>::suits(layout)) return make(GridFlowMaker<Few8<Capacity>>());
        if (Rows4<Capacity>::suits(layout)) return make(GridFlowMaker<Rows4<Capacity>>());
        if (Rows8<Capacity>::suits(layout)) return make(GridFlowMaker<Rows8<Capacity>>());
        return make(GridFlowMaker<Rows16<Capacity>>());
    });
}

}  // namespace

std::unique_ptr<GridFlow> grid_flow(const GridWeights& weights, double scale, int bits,
                                    const Poll& poll) {
    const GridLayout layout(weights.shape(), weights.offsets());
    return with_maker(layout, bits, [&](auto maker) { return maker.make(weights, scale, poll); });
}

std::unique_ptr<BlockFlow> block_grid_flow(const GridWeights& weights, double scale, int bits,
                                           const std::vector<Point>& cuts) {
    const GridLayout layout(weights.shape(), weights.offsets());
    return with_maker(layout, bits,
                      [&](auto maker) { return maker.make_blocks(weights, scale, cuts); });
}

std::size_t grid_flow_bytes(const Point& shape, const std::vector<Point>& offsets, int bits) {
    const GridLayout layout(shape, offsets);
    return with_maker(layout, bits, [&](auto maker) { return maker.bytes_needed(layout); });
}

}  // namespace dope
