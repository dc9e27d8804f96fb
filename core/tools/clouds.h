// Reads a point cloud from a file, for boards without Python. Any bytes give a cloud or a CloudError, and the memory
// is at most a small multiple of the size of the file.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bipointnet {

// One sentence: what, what was found, what was expected.
struct CloudError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Reads the cloud in a file, point by point, `channels` (at least 3) floats per point, xyz first. The suffix determines
// the format; "-" is text from standard input. `relative` allows xyz to be moved: see to_float32().
std::vector<float> read_cloud(const std::string& path, std::size_t channels, bool relative);

// The suffixes that read_cloud() accepts, for messages.
std::string cloud_suffixes();

// All formats: at least one point; every number is finite and within float32.
//
// Text: one point per line; columns are separated by semicolons, by commas, or by blanks and tabs; comments run from #
// or // to the end of the line. The first line may hold the number of points, the next one the names of the columns.
// Columns are read from the left or, if x, y and z are named, these first and then the others. Columns that are not
// needed may hold anything.
std::vector<double> parse_text(std::string_view bytes, std::size_t channels);

// Little-endian float32, `channels` per point, and nothing else.
std::vector<double> parse_floats(std::string_view bytes, std::size_t channels);

// PLY as text or as binary of either byte order: x, y and z of the vertices, then their other scalar properties in
// order.
std::vector<double> parse_ply(std::string_view bytes, std::size_t channels);

// Converts to float32. If that would round away the shape of a cloud far from the origin (a georeferenced scan) and
// `relative` allows it, xyz become relative to the corner of the cloud; a network that normalizes the cloud gives the
// same result.
std::vector<float> to_float32(const std::vector<double>& numbers, std::size_t channels, bool relative);

}  // namespace bipointnet
