// OFF, the Object File Format of Geomview: "OFF", the numbers of vertices, faces and edges, then one line per vertex
// and one per face.
#include <algorithm>
#include <optional>

#include "clouds/columns.h"
#include "clouds/formats.h"
#include "clouds/lines.h"
#include "clouds/polygons.h"

namespace bipointnet::clouds {
namespace {

// The lines that are not blank, without comments.
class Content {
 public:
  explicit Content(std::string_view bytes) : lines_(bytes) {}

  bool next(std::string_view& line) {
    while (lines_.next(line)) {
      line = trimmed(line.substr(0, line.find('#')));
      if (!line.empty()) return true;
    }
    return false;
  }

  std::string where() const { return lines_.where(); }
  std::string where(std::size_t column) const { return lines_.where(column); }
  std::string_view rest() const { return lines_.rest(); }

 private:
  Lines lines_;
};

// What a line with a vertex holds after x, y and z. Geomview demands the order normal, color, texture.
struct Kind {
  bool texture = false, color = false, normal = false;

  std::size_t least() const { return 3 + (normal ? 3 : 0) + (color ? 3 : 0) + (texture ? 2 : 0); }
};

bool remove_prefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Leaves `line` after the keyword, which may be missing.
Kind kind_of(std::string_view& line) {
  Kind kind;
  if (line[0] >= '0' && line[0] <= '9' && line.find("OFF") == std::string_view::npos) return kind;
  std::string_view rest = line;
  kind.texture = remove_prefix(rest, "ST");
  kind.color = remove_prefix(rest, "C");
  kind.normal = remove_prefix(rest, "N");
  const bool four = remove_prefix(rest, "4"), any = remove_prefix(rest, "n");
  if (!remove_prefix(rest, "OFF") && !remove_prefix(rest, "off")) {
    refuse("", "a file that begins with " + excerpt(line), "OFF; check that its suffix is right");
  }
  if (four || any) {
    refuse("", excerpt(line) + ", points in 4 or more dimensions", "OFF with x, y and z; convert the file");
  }
  if (lowered(trimmed(rest)).substr(0, 6) == "binary") {
    refuse("", "a binary OFF file", "OFF as text; convert it, for example to PLY with MeshLab");
  }
  line = trimmed(rest);
  return kind;
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : content_(bytes) {}

  Parsed read() {
    std::string_view line;
    if (!content_.next(line)) refuse("", "a file without content", "OFF");
    kind_ = kind_of(line);
    if (line.empty() && !content_.next(line)) refuse_counts("the end of the file");
    const auto [vertices, faces] = counts_in(line);
    if (vertices == 0) refuse(content_.where(), "0 points", "at least 1; export the file again from its source");
    read_vertices(vertices);
    read_faces(faces);
    note_rest(content_.rest(), parsed_.notes);
    return std::move(parsed_);
  }

 private:
  [[noreturn]] void refuse_counts(const std::string& found) {
    refuse(content_.where(), found, "the numbers of vertices, faces and edges");
  }

  std::pair<std::uint64_t, std::uint64_t> counts_in(std::string_view line) {
    Words words;
    split_blanks(line, 4, words);
    const auto count = [&](std::size_t i) { return i < words.size() ? whole_number(words[i]) : std::nullopt; };
    if (!count(0) || !count(1) || (words.size() > 2 && !count(2)) || words.size() > 3) refuse_counts(excerpt(line));
    return {*count(0), *count(1)};
  }

  void read_vertices(std::uint64_t count) {
    std::string_view line, word;
    for (std::uint64_t vertex = 0; vertex < count; ++vertex) {
      if (!content_.next(line)) refuse_cut(vertex, "vertices", count);
      if (vertex == 0) begin_columns(line, count);
      std::string_view rest = line;
      std::size_t read = 0;
      for (; read < parsed_.columns.size() && next_word(rest, word); ++read) {
        const std::optional<double> number = number_in(word);
        if (!number) refuse(content_.where(read), excerpt(word), "a number");
        parsed_.columns[read].values.push_back(*number);
      }
      if (read < parsed_.columns.size() || next_word(rest, word)) {
        std::size_t numbers = 0;
        for (rest = line; next_word(rest, word);) ++numbers;
        refuse(content_.where(), text_of(numbers) + " numbers in " + excerpt(line),
               text_of(parsed_.columns.size()) + " as in the first vertex; check the number of vertices");
      }
    }
    name_others();
  }

  // The first vertex tells how many numbers a vertex has.
  void begin_columns(std::string_view line, std::uint64_t count) {
    Words words;
    split_blanks(line, kMaxColumns + 1, words);
    if (words.size() > kMaxColumns) {
      refuse(content_.where(), "more than " + text_of(kMaxColumns) + " numbers",
             "one vertex per line; check the ends of the lines");
    }
    if (words.size() < kind_.least()) {
      refuse(content_.where(), text_of(words.size()) + " numbers in " + excerpt(line),
             "at least " + text_of(kind_.least()) + " for a vertex");
    }
    std::vector<std::string> names = {"x", "y", "z"};
    if (kind_.normal) names.insert(names.end(), {"nx", "ny", "nz"});
    const std::size_t others = words.size() - names.size() - (kind_.texture ? 2 : 0);
    if (kind_.color) names.insert(names.end(), {"red", "green", "blue"});
    if (kind_.color && others == 4) names.push_back("alpha");
    if (kind_.texture) names.insert(names.end(), {"s", "t"});
    names.resize(words.size());  // without names
    // At least a character and a separator per number; the end of the last line may be missing.
    const std::uint64_t most = (line.size() + content_.rest().size() + 2) / (2 * words.size());
    for (const std::string& name : names) {
      parsed_.columns.push_back({name, 0, {}});
      parsed_.columns.back().values.reserve(static_cast<std::size_t>(std::min(most, count)));
    }
  }

  // Many programs write colors or normals under a plain "OFF".
  void name_others() {
    std::vector<Column>& columns = parsed_.columns;
    if (kind_.least() > 3 || columns.size() < 6) return;
    name_by_position(columns, "", parsed_.notes);
    if (columns.size() == 7 && columns[3].name == "red") columns[6].name = "alpha";
  }

  // "n i j k ...", and perhaps a color, which is left out.
  void read_faces(std::uint64_t count) {
    Fans fans(parsed_.faces);
    const std::uint64_t most = (content_.rest().size() + 1) / 8;  // "3 0 1 2"
    parsed_.faces.reserve(3 * static_cast<std::size_t>(std::min(most, count)));
    std::string_view line, word;
    for (std::uint64_t face = 0; face < count; ++face) {
      if (!content_.next(line)) refuse_cut(face, "faces", count);
      std::string_view rest = line;
      next_word(rest, word);
      const std::optional<std::uint64_t> corners = whole_number(word);
      if (!corners) refuse(content_.where(), excerpt(word), "the number of corners of a face");
      fans.begin();
      for (std::uint64_t i = 0; i < *corners; ++i) {
        if (!next_word(rest, word)) {
          refuse(content_.where(), text_of(i) + " corners in " + excerpt(line), text_of(*corners) + " as declared");
        }
        const std::optional<std::uint64_t> corner = whole_number(word);
        if (!corner || *corner > kMaxIndex) refuse(content_.where(), excerpt(word), "the index of a vertex");
        fans.add(static_cast<std::int64_t>(*corner));
      }
    }
  }

  static constexpr std::uint64_t kMaxIndex = std::uint64_t{1} << 62;

  Content content_;
  Kind kind_;
  Parsed parsed_;
};

}  // namespace

Parsed parse_off(std::string_view bytes, const Source&) {
  Parsed parsed = Reader(bytes).read();
  parsed.format = "OFF";
  return parsed;
}

}  // namespace bipointnet::clouds
