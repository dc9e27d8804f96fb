// Files with the labels of points.
#pragma once

#include <string>
#include <vector>

#include "clouds/cloud.h"

namespace bipointnet::tool {

// Throws Error if write_labels() could not write to `path`: its suffix is unknown, it is not a file, or its folder does
// not exist.
void check_label_file(const std::string& path);

// Writes labels (N) of a cloud of N points; the suffix determines the format:
//   .txt  one label per line    .npy  int64
//         Both have one label per point of the file that the cloud was read from; a dropped point has -1.
//   .ply  binary: x, y, z, the color of the class, and the property `label`; comments name the labels. The same bytes as
//         bipointnet.viz.labeled.write_ply writes. Without dropped points.
// The bytes go to a file beside `path`, which then replaces it. Throws Error.
void write_labels(const std::string& path, const clouds::Cloud& cloud, const std::vector<int>& labels,
                  const std::vector<std::string>& classes);

}  // namespace bipointnet::tool
