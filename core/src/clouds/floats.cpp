// Raw little-endian float32. Nothing in such a file tells the number of columns: --columns does, or the name of the
// file. The size cannot: a file of 6 columns may be read as one of 3 without an error.
#include <cmath>
#include <utility>

#include "clouds/columns.h"
#include "clouds/formats.h"
#include "clouds/lines.h"
#include "clouds/scalars.h"

namespace bipointnet::clouds {
namespace {

constexpr std::size_t kSize = 4;
const std::vector<std::string> kNames = {"x", "y", "z", "intensity", "ring"};

std::vector<std::string> first_names(std::size_t count) {
  return {kNames.begin(), kNames.begin() + static_cast<std::ptrdiff_t>(count)};
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// 000123.bin or 0000000123.bin
bool has_name_of_kitti(const Source& source) {
  const std::size_t digits = source.name.size() - source.suffix.size();
  return source.suffix == ".bin" && (digits == 6 || digits == 10) &&
         source.name.find_first_not_of("0123456789") == digits;
}

bool is_plausible(double number) {
  return !std::isfinite(number) || number == 0 || (std::abs(number) > 1e-30 && std::abs(number) < 1e12);
}

struct Layout {
  std::vector<std::string> names;
  std::string why;  // the reason for a guess; else empty
};

Layout layout_of(const Source& source) {
  if (!source.columns.empty()) return {source.columns, ""};
  if (ends_with(source.name, ".pcd.bin")) return {first_names(5), "read as nuScenes because of its name"};
  if (has_name_of_kitti(source)) return {first_names(4), "read as KITTI because of its name"};
  if (source.suffix != ".bin") return {first_names(3), ""};
  refuse("", "nothing that says how many float32 a point has",
         "their names; pass them with --columns, like --columns x,y,z,intensity");
}

}  // namespace

Parsed parse_floats(std::string_view bytes, const Source& source) {
  const Layout layout = layout_of(source);
  const std::size_t columns = layout.names.size();
  if (columns > kMaxColumns) refuse("", text_of(columns) + " --columns", "at most " + text_of(kMaxColumns));
  if (bytes.size() % (kSize * columns) != 0) {
    refuse("", text_of(bytes.size()) + " bytes" + (layout.why.empty() ? "" : ", " + layout.why),
           "a multiple of " + text_of(kSize * columns) + " (" + text_of(columns) +
               " float32 per point); name the columns with --columns, or copy it again");
  }
  Parsed parsed;
  parsed.format = "float32, " + text_of(columns) + " per point";
  if (!layout.why.empty())
    parsed.notes.push_back(layout.why + ": " + listed(layout.names) + "; --columns can name others");
  const std::size_t rows = bytes.size() / (kSize * columns);
  for (std::size_t c = 0; c < columns; ++c) {
    if (layout.names[c] == "-") continue;
    Column column{layout.names[c], 0, std::vector<double>(rows)};
    read_values(bytes.data() + kSize * c, kSize * columns, rows, kFloat32, false, column.values.data());
    for (std::size_t row = 0; row < rows; ++row) {
      if (!layout.why.empty() && !is_plausible(column.values[row])) {
        refuse("point " + text_of(row) + " (counted from 0)", "bytes that are not a float32 coordinate",
               "little-endian float32; name the columns with --columns, or convert the file");
      }
    }
    parsed.columns.push_back(std::move(column));
  }
  return parsed;
}

}  // namespace bipointnet::clouds
