// How far every site is from the other label.
#pragma once

#include <cstdint>

#include "box.h"

namespace dope {

// The Euclidean distance of each site to the nearest one with the other label, less 1/2; for label
// 1 the outside of the box counts as label 0. Without any site of label 1 there is none to measure
// to: the distance is then 1 everywhere.
//
// Felzenszwalb and Huttenlocher, Distance transforms of sampled functions, 2012: squared distances
// along one axis after the other, each the lower envelope of parabolas.
void distances(const Point& shape, const std::uint8_t* labels, double* out);

}  // namespace dope
