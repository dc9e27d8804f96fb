// STL: triangles, each with its three corners; corners are not shared, so a file of n triangles has 3 n points.
#include <algorithm>
#include <optional>
#include <utility>

#include "clouds/formats.h"
#include "clouds/lines.h"
#include "clouds/polygons.h"
#include "clouds/scalars.h"

namespace bipointnet::clouds {
namespace {

constexpr std::size_t kHeaderBytes = 84;    // 80 of any text, and the number of triangles
constexpr std::size_t kTriangleBytes = 50;  // the normal, three corners, and 2 bytes that some programs use for colors

std::vector<Column> axes(std::size_t points) {
  std::vector<Column> columns;
  for (const char* name : {"x", "y", "z"}) columns.push_back({name, 0, std::vector<double>(points)});
  return columns;
}

std::uint64_t declared_triangles(std::string_view bytes) {
  return static_cast<std::uint64_t>(value_of(bytes.data() + 80, {4, ScalarKind::unsigned_integer}));
}

// Text begins with "solid", but the 80 bytes of a binary file may do so as well.
bool is_text(std::string_view bytes) {
  if (bytes.size() >= kHeaderBytes && bytes.size() - kHeaderBytes == kTriangleBytes * declared_triangles(bytes)) {
    return false;
  }
  const std::string start = lowered(without_mark(bytes).substr(0, 1024));
  if (start.find('\0') != std::string::npos) return false;
  std::string_view rest = start, word;
  return next_word(rest, word) && (word == "solid" || start.find("facet") != std::string::npos);
}

Parsed parse_binary(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) {
    refuse("", text_of(bytes.size()) + " bytes",
           "'solid' or at least " + text_of(kHeaderBytes) + " bytes as in STL files");
  }
  const std::uint64_t declared = declared_triangles(bytes);
  const std::size_t most = (bytes.size() - kHeaderBytes) / kTriangleBytes;
  // The number of triangles is text only in files of over 6 GB.
  const std::string_view start = bytes.substr(0, kHeaderBytes);
  const auto printable = [](char c) { return (c >= ' ' && c < 0x7F) || c == '\n' || is_blank(c); };
  if (declared > most && std::all_of(start.begin(), start.end(), printable)) {
    refuse("", "a file that begins with " + excerpt(trimmed(start)), "STL; check that its suffix is right");
  }
  if (declared > most) refuse_cut(most, "triangles", declared);
  const auto triangles = static_cast<std::size_t>(declared);
  Parsed parsed{"STL, binary", axes(3 * triangles), std::vector<std::int64_t>(3 * triangles), {}};
  for (std::size_t i = 0; i < triangles; ++i) {
    const char* corners = bytes.data() + kHeaderBytes + i * kTriangleBytes + 12;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      read_values(corners + 4 * axis, 12, 3, kFloat32, false, &parsed.columns[axis].values[3 * i]);
    }
  }
  for (std::size_t i = 0; i < parsed.faces.size(); ++i) parsed.faces[i] = static_cast<std::int64_t>(i);
  note_rest(bytes.substr(kHeaderBytes + triangles * kTriangleBytes), parsed.notes);
  return parsed;
}

class TextReader {
 public:
  explicit TextReader(std::string_view bytes) : lines_(bytes), fans_(parsed_.faces) {
    parsed_.format = "STL, ASCII";
    parsed_.columns = axes(0);
  }

  Parsed read() {
    std::string_view line;
    while (lines_.next(line)) read_line(line);
    if (in_solid_) {
      refuse("the file is cut short", "no 'endsolid' after " + text_of(parsed_.faces.size() / 3) + " triangles",
             "one; copy it again from its source");
    }
    return std::move(parsed_);
  }

 private:
  void read_line(std::string_view line) {
    std::string_view word;
    while (next_word(line, word)) {
      const std::string key = lowered(word);
      if (key == "vertex") {
        add_vertex(line);
      } else if (key == "outer") {
        fans_.begin();
      } else if (key == "endloop") {
        end_loop();
      } else if (key == "facet") {
        for (int i = 0; i < 4; ++i) next_word(line, word);  // "normal" and its numbers, which follow from the corners
      } else if (key == "solid" || key == "endsolid") {
        in_solid_ = key == "solid";
        return;  // a name follows, which may hold anything
      } else if (key != "loop" && key != "endfacet") {
        refuse(lines_.where(), excerpt(word), "a word of STL, like facet or vertex");
      }
    }
  }

  void add_vertex(std::string_view& line) {
    std::string_view word;
    fans_.add(static_cast<std::int64_t>(parsed_.columns[0].values.size()));
    for (Column& column : parsed_.columns) {
      next_word(line, word);
      const std::optional<double> number = number_in(word);
      if (!number) refuse(lines_.where(), excerpt(word) + " as " + column.name + " of a vertex", "a number");
      column.values.push_back(*number);
    }
  }

  void end_loop() {
    if (fans_.corners() < 3) refuse(lines_.where(), "a facet of " + text_of(fans_.corners()) + " corners", "3");
    fans_.begin();
  }

  Lines lines_;
  Parsed parsed_;
  Fans fans_;
  bool in_solid_ = false;
};

}  // namespace

Parsed parse_stl(std::string_view bytes, const Source&) {
  return is_text(bytes) ? TextReader(bytes).read() : parse_binary(bytes);
}

}  // namespace bipointnet::clouds
