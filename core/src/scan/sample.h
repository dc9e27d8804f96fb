// Points of a mesh, for a classifier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bipointnet::scan {

// `wanted` points of a surface, uniform by area. faces: three valid indices of points per triangle, with an area in
// total. Throws std::bad_alloc if they do not fit into memory.
//
// Point i uses the numbers uniform(4 i), uniform(4 i + 1) and uniform(4 i + 2): the first chooses the triangle by its
// area, the others the place in it. So a larger sample begins with the smaller one, and bipointnet.data.solids.sample
// draws the same points if its generator is a bipointnet.data.shuffle.Ranks.
std::vector<float> sample_surface(const float* xyz, const std::vector<std::int64_t>& faces, std::size_t wanted);

}  // namespace bipointnet::scan
