#include "grid_flow.h"

namespace dope {

template struct GridFlowMaker<Rows8<std::int16_t>>;
template struct GridFlowMaker<Rows8<std::int32_t>>;
template struct GridFlowMaker<Rows8<std::int64_t>>;

}  // namespace dope
