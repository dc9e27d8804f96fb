// A point cloud or mesh in a file. Any bytes give a cloud or a CloudError, and the memory is at most a small multiple of
// the size of the file (of its unpacked size for a PCD file with DATA binary_compressed). Python, the command line tool
// and the page in the browser share these readers.
//
//   read.h     a file or bytes -> Cloud: chooses the format, parses, finishes
//   formats.h  one parser per format: bytes -> Parsed, every column of the file
//   columns.h  the roles of columns by their names
//   finish.h   Parsed -> Cloud: float32, colors, points without a return
//   lines.h    lines, words and numbers of text; fields.h: the fields of a line; scalars.h: numbers of binary files
//   polygons.h faces of any polygon -> triangles
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace bipointnet::clouds {

// One sentence: what, what was found, what was expected, and what to do.
struct CloudError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One number per point, as stored in the file.
struct Column {
  std::string name;  // as in the file; empty if the file does not name it
  unsigned bits;     // of an unsigned integer type that the file declares, like 8 for uchar; else 0
  std::vector<double> values;
};

// The content of a file before it is checked. Points are in the order of the file, and no point is left out.
struct Parsed {
  std::string format;             // for people, like "PLY, binary little-endian"
  std::vector<Column> columns;    // of equal length, in the order of the file
  std::vector<std::int64_t> faces;  // three indices of points per triangle; polygons are cut into fans
  std::vector<std::string> notes;   // what a person should know, like "the column 'name' holds text and was left out"
};

// The content of a file.
struct Cloud {
  std::string format;
  std::vector<float> points;       // x, y, z per point; finite
  std::array<double, 3> origin{};  // was subtracted from the file's coordinates; see finish.h
  std::vector<float> colors;       // red, green, blue per point from 0 to 1; empty without colors
  double color_scale = 0;            // what the file's colors were divided by: 1, 255 or 65535; 0 without colors
  std::vector<std::int64_t> faces;  // three indices per triangle; empty if the file holds points only
  std::vector<Column> fields;       // the other columns in the order of the file; one without name is "column 4"
  std::vector<std::string> columns;  // the names of all columns of the file, for people; "?" for a column without name
  std::vector<std::size_t> kept;     // the index in the file of each point; empty if none was dropped
  std::size_t dropped = 0;           // points with a coordinate that is NaN or infinite
  std::vector<std::string> notes;

  std::size_t size() const { return points.size() / 3; }
};

// What the user says about a file.
struct ReadOptions {
  std::vector<std::string> columns;  // the names of the columns of a text or .bin file, "-" to ignore one; or empty
  bool strict = false;               // refuse a file with NaN or infinite coordinates instead of dropping the points
};

}  // namespace bipointnet::clouds
