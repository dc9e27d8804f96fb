// Reads a point cloud from a file, for boards without Python. Any bytes give a cloud or a CloudError, and take no more
// memory than a small multiple of their number.
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

// The cloud in a file, point by point, `channels` (3 or more) numbers a point, xyz first. The suffix says the format;
// "-" is text from standard input. `relative` allows xyz to be moved: see narrowed().
std::vector<float> read_cloud(const std::string& path, std::size_t channels, bool relative);

// The suffixes read_cloud() knows, for people.
std::string cloud_suffixes();

// What the formats hold: at least one point, every number finite and within float32.
//
// Text: a point a line, its columns between semicolons, commas, or blanks and tabs; comments from # or // to the end of
// a line. A first line may hold the number of points, and the next the names of the columns. Columns are taken from the
// left, or x, y, z and then the others where they are so named; those that are not needed may hold anything.
std::vector<double> parse_text(std::string_view bytes, std::size_t channels);

// Little-endian float32, `channels` a point, and nothing else.
std::vector<double> parse_floats(std::string_view bytes, std::size_t channels);

// PLY, as text or binary of either byte order: x, y and z of the vertices, then their other scalar properties in order.
std::vector<double> parse_ply(std::string_view bytes, std::size_t channels);

// float32. Where that would round away the shape of a cloud far from the origin (a georeferenced scan), and `relative`
// allows it, xyz are taken relative to the cloud's corner; a network that normalises a cloud gives the same answer.
std::vector<float> narrowed(const std::vector<double>& numbers, std::size_t channels, bool relative);

}  // namespace bipointnet
