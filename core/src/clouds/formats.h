// One parser per format. Each returns every numeric column of the file in the file's order, or throws a CloudError. None
// allocates more than a small multiple of the bytes it was given, whatever these declare; but those of a PCD file with
// DATA binary_compressed are unpacked first, to at most 88 times as many.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "clouds/cloud.h"

namespace bipointnet::clouds {

// What a parser may know beside the bytes.
struct Source {
  std::string name;    // the file's name without folders, in lower case
  std::string suffix;  // in lower case, with the dot
  std::vector<std::string> columns;  // see ReadOptions
};

// More columns are refused: a table of one row would cost a hundred times its bytes.
constexpr std::size_t kMaxColumns = 1000;

Parsed parse_text(std::string_view bytes, const Source& source);    // .xyz .txt .csv .pts .asc .xyzn .xyzrgb
Parsed parse_ptx(std::string_view bytes, const Source& source);     // Leica: one or more scans with their pose
Parsed parse_floats(std::string_view bytes, const Source& source);  // .bin .f32 .raw: little-endian float32
Parsed parse_npy(std::string_view bytes, const Source& source);     // NumPy: (N, 3 or more), or structured
Parsed parse_ply(std::string_view bytes, const Source& source);
Parsed parse_pcd(std::string_view bytes, const Source& source);
Parsed parse_off(std::string_view bytes, const Source& source);
Parsed parse_obj(std::string_view bytes, const Source& source);
Parsed parse_stl(std::string_view bytes, const Source& source);
Parsed parse_las(std::string_view bytes, const Source& source);  // uncompressed, versions 1.0 to 1.4

}  // namespace bipointnet::clouds
