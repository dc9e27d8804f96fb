// OBJ of Wavefront: vertices ("v") and faces ("f") in any order. Everything else is left out, and no other file is
// opened.
#include <algorithm>
#include <optional>
#include <utility>

#include "clouds/formats.h"
#include "clouds/lines.h"
#include "clouds/polygons.h"

namespace bipointnet::clouds {
namespace {

constexpr std::size_t kMaxNumbers = 7;  // of a vertex: x y z, then w, or r g b, or r g b and alpha

// Statements whose last argument is a name. A name may end with a backslash, like a folder of Windows.
constexpr std::string_view kNamed[] = {"g",      "o",    "usemtl",     "mtllib",   "maplib",
                                       "usemap", "call", "shadow_obj", "trace_obj"};
// Statements that are known and left out.
constexpr std::string_view kIgnored[] = {
    "vt",   "vn",   "vp",   "l",     "p",    "s",        "mg",       "cstype", "deg",
    "bmat", "step", "curv", "curv2", "surf", "parm",     "trim",     "hole",   "scrv",
    "sp",   "end",  "con",  "bevel", "lod",  "c_interp", "d_interp", "ctech",  "stech",
    "csh",  "cdc",  "cdp",  "res",   "bzp",  "bsp"};

template <std::size_t count>
bool is_one_of(std::string_view word, const std::string_view (&words)[count]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : lines_(bytes), fans_(parsed_.faces) {}

  Parsed read() {
    std::string_view line, key;
    while (lines_.next(line)) {
      if (!next_word(line, key) || key[0] == '#') continue;
      if (!is_one_of(key, kNamed)) continue_line(line);
      if (key == "v") {
        read_vertex(line);
      } else if (key == "f" || key == "fo") {
        read_face(line);
      } else if (!is_one_of(key, kNamed) && !is_one_of(key, kIgnored) && unknown_++ == 0) {
        first_unknown_ = lines_.where() + ": " + excerpt(key);
      }
    }
    finish();
    return std::move(parsed_);
  }

 private:
  // A backslash at the end of a line continues it. Leaves the joined lines without comments in `line`.
  void continue_line(std::string_view& line) {
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty() || line.back() != '\\') return;
    joined_.clear();
    std::string_view part = line;
    do {
      part.remove_suffix(!part.empty() && part.back() == '\\');
      joined_.append(part).push_back(' ');
      if (!lines_.next(part)) part = {};
      part = trimmed(part.substr(0, part.find('#')));
    } while (!part.empty() && part.back() == '\\');
    line = joined_.append(part);
  }

  void read_vertex(std::string_view line) {
    double numbers[kMaxNumbers] = {};
    std::string_view rest = line, word;
    std::size_t count = 0;
    for (; next_word(rest, word); ++count) {
      const std::optional<double> number = count < kMaxNumbers ? number_in(word) : std::nullopt;
      if (!number) {
        refuse(lines_.where(count + 1), excerpt(word), count < kMaxNumbers ? "a number" : "the end of a vertex");
      }
      numbers[count] = *number;
    }
    if (count < 3) refuse(lines_.where(), text_of(count) + " numbers in " + excerpt(line), "at least 3 for a vertex");
    if (vertices_++ == 0) begin_columns(count);
    if (count != count_ && !mixed_) {
      mixed_ = true;
      parsed_.columns.resize(3);
      parsed_.notes.push_back(lines_.where() + ": " + text_of(count) + " numbers, the vertices before have " +
                              text_of(count_) + "; only x, y and z were read");
    }
    for (std::size_t i = 0; i < parsed_.columns.size(); ++i) parsed_.columns[i].values.push_back(numbers[i]);
  }

  // The first vertex tells what the vertices hold.
  void begin_columns(std::size_t count) {
    count_ = count;
    std::vector<std::string> names = {"x", "y", "z"};
    if (count == 4) names.push_back("w");
    if (count >= 6) names.insert(names.end(), {"red", "green", "blue"});
    if (count == 7) names.push_back("alpha");
    names.resize(count);
    for (const std::string& name : names) parsed_.columns.push_back({name, 0, {}});
  }

  void read_face(std::string_view line) {
    std::string_view word;
    fans_.begin();
    while (next_word(line, word)) fans_.add(corner_in(word));
  }

  // The vertex in "v", "v/vt", "v//vn" or "v/vt/vn": counted from 1, or back from the last vertex so far.
  std::int64_t corner_in(std::string_view word) {
    const std::string_view vertex = word.substr(0, word.find('/'));
    const bool back = vertex.substr(0, 1) == "-";
    const std::optional<std::uint64_t> number = whole_number(vertex.substr(back));
    if (!number || *number == 0 || (back && *number > vertices_)) {
      refuse(lines_.where(), "the corner " + excerpt(word),
             back ? "-1 to -" + text_of(vertices_) + ", counted from the last vertex" : "a vertex, counted from 1");
    }
    if (back) return static_cast<std::int64_t>(vertices_ - *number);
    if (*number > largest_) {
      largest_ = *number;
      largest_at_ = lines_;
    }
    return static_cast<std::int64_t>(std::min(*number, std::uint64_t{1} << 62) - 1);
  }

  void finish() {
    parsed_.format = "OBJ";
    if (vertices_ == 0) refuse("", "no vertices", "lines 'v x y z'; check that the suffix is right");
    if (largest_ > vertices_) {
      refuse(largest_at_.where(), "the vertex " + text_of(largest_),
             "1 to " + text_of(vertices_) + "; export the mesh again");
    }
    if (unknown_ > 0) {
      parsed_.notes.push_back(text_of(unknown_) + " lines of an unknown kind were left out; the first is " +
                              first_unknown_);
    }
  }

  Lines lines_;
  Parsed parsed_;
  Fans fans_;
  std::string joined_;     // the lines of one statement
  std::size_t count_ = 0;  // numbers of the first vertex
  bool mixed_ = false;     // another vertex has more or fewer
  std::uint64_t vertices_ = 0;
  std::uint64_t largest_ = 0;  // corner, counted from 1
  Lines largest_at_{""};
  std::uint64_t unknown_ = 0;
  std::string first_unknown_;
};

}  // namespace

Parsed parse_obj(std::string_view bytes, const Source&) { return Reader(bytes).read(); }

}  // namespace bipointnet::clouds
