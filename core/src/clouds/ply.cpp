// PLY: the header declares elements and their properties; the body holds them in this order, as text or binary. See
// Turk, "The PLY polygon file format", 1994.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "clouds/columns.h"
#include "clouds/formats.h"
#include "clouds/lines.h"
#include "clouds/polygons.h"
#include "clouds/scalars.h"

namespace bipointnet::clouds {
namespace {

struct NamedScalar {
  std::string_view name, other_name;
  Scalar type;
};

constexpr NamedScalar kScalars[] = {{"float", "float32", kFloat32},
                                    {"double", "float64", kFloat64},
                                    {"char", "int8", {1, ScalarKind::signed_integer}},
                                    {"uchar", "uint8", {1, ScalarKind::unsigned_integer}},
                                    {"short", "int16", {2, ScalarKind::signed_integer}},
                                    {"ushort", "uint16", {2, ScalarKind::unsigned_integer}},
                                    {"int", "int32", {4, ScalarKind::signed_integer}},
                                    {"uint", "uint32", {4, ScalarKind::unsigned_integer}},
                                    {"long", "int64", {8, ScalarKind::signed_integer}},
                                    {"ulong", "uint64", {8, ScalarKind::unsigned_integer}}};

struct Property {
  std::string_view name;
  Scalar type;
  std::optional<Scalar> length;  // the type of the length of a list
};

struct Element {
  std::string_view name;
  std::uint64_t count;
  std::vector<Property> properties;

  std::string what() const { return "element " + excerpt(name); }
};

[[noreturn]] void refuse_cut_after(std::uint64_t found, const Element& element) {
  refuse_cut(found, (found == 1 ? "item of " : "items of ") + element.what(), element.count);
}

enum class Layout { text, little_endian, big_endian };

struct Header {
  Layout layout;
  std::vector<Element> elements;
};

Scalar scalar_named(std::string_view name, const Lines& lines) {
  for (const NamedScalar& scalar : kScalars) {
    if (name == scalar.name || name == scalar.other_name) return scalar.type;
  }
  refuse(lines.where(), "the type " + excerpt(name), "a type of PLY, like float or uchar");
}

Layout layout_of(const Words& words, const Lines& lines) {
  if (words.size() == 3 && words[2] == "1.0") {
    if (words[1] == "ascii") return Layout::text;
    if (words[1] == "binary_little_endian") return Layout::little_endian;
    if (words[1] == "binary_big_endian") return Layout::big_endian;
  }
  refuse(lines.where(), "an unknown format", "ascii, binary_little_endian or binary_big_endian, and 1.0");
}

Element element_of(const Words& words, const Lines& lines) {
  const std::optional<std::uint64_t> count = words.size() == 3 ? whole_number(words[2]) : std::nullopt;
  if (!count) refuse(lines.where(), "an element ending with " + excerpt(words.back()), "'element NAME COUNT'");
  return {words[1], *count, {}};
}

Property property_of(const Words& words, const Lines& lines) {
  if (words.size() == 3) return {words[2], scalar_named(words[1], lines), std::nullopt};
  if (words.size() != 5 || words[1] != "list") {
    refuse(lines.where(), "a property ending with " + excerpt(words.back()),
           "'property TYPE NAME' or 'property list TYPE TYPE NAME'");
  }
  const Property property{words[4], scalar_named(words[3], lines), scalar_named(words[2], lines)};
  if (property.length->kind == ScalarKind::real) {
    refuse(lines.where(), "a list counted by " + excerpt(words[2]), "an integer type");
  }
  return property;
}

// Leaves `lines` at the body.
Header header_of(Lines& lines) {
  std::optional<Layout> layout;
  std::vector<Element> elements;
  std::string_view line;
  Words words;
  if (!lines.next(line) || trimmed(line) != "ply") refuse("", "a file that begins with " + excerpt(line), "'ply'");
  while (lines.next(line)) {
    split_blanks(line, 6, words);
    if (words.empty() || words[0] == "comment" || words[0] == "obj_info") continue;
    if (words[0] == "end_header" && layout) return {*layout, std::move(elements)};
    if (words[0] == "format" && !layout) {
      layout = layout_of(words, lines);
    } else if (words[0] == "element") {
      elements.push_back(element_of(words, lines));
    } else if (words[0] == "property" && !elements.empty()) {
      elements.back().properties.push_back(property_of(words, lines));
    } else {
      refuse(lines.where(), excerpt(words[0]), layout ? "element, property, comment or end_header" : "format");
    }
  }
  refuse(lines.where(), "the file ends in its header", "end_header");
}

enum class Role { vertices, polygons, strips, other };

Role role_of(const Element& element) {
  if (element.name == "vertex") return Role::vertices;
  if (element.name == "face") return Role::polygons;
  return element.name == "tristrips" ? Role::strips : Role::other;
}

// Takes the numbers of an element in the order of the file. The scalars of vertices become columns, the lists of
// corners become faces, and the rest is left out.
class Target {
 public:
  Target(const Element& element, Parsed& parsed)
      : element_(element), role_(role_of(element)), parsed_(parsed), fans_(parsed.faces) {
    for (const Property& property : element.properties) {
      if (role_ == Role::vertices && !property.length) {
        parsed.columns.push_back({std::string(property.name), property.type.bits(), {}});
      } else if (role_ == Role::vertices) {
        parsed.notes.push_back("the list " + excerpt(property.name) + " of the vertices was left out");
      }
      if (is_corners(property)) has_corners_ = true;
    }
    if ((role_ == Role::polygons || role_ == Role::strips) && !has_corners_ && element.count > 0) {
      parsed.notes.push_back(element.what() + " has no list vertex_indices; the faces were left out");
    }
  }

  bool is_vertices() const { return role_ == Role::vertices; }

  bool is_corners(const Property& property) const {
    return (role_ == Role::polygons || role_ == Role::strips) && property.length &&
           (property.name == "vertex_indices" || property.name == "vertex_index");
  }

  // `most` is a bound on the number of vertices or triangles that the file can hold.
  void reserve(std::uint64_t most) {
    const auto count = static_cast<std::size_t>(std::min(most, element_.count));
    if (is_vertices()) {
      for (Column& column : parsed_.columns) column.values.reserve(count);
    } else if (has_corners_) {
      parsed_.faces.reserve(parsed_.faces.size() + 3 * count);
    }
  }

  void add_scalar(std::size_t column, double value) { parsed_.columns[column].values.push_back(value); }

  // `vertices` numbers of each of the columns, of a block of items without lists.
  void add_block(const char* bytes, std::size_t item_bytes, std::size_t vertices, bool big_endian) {
    for (std::size_t p = 0; p < element_.properties.size(); ++p) {
      const Scalar& type = element_.properties[p].type;
      std::vector<double>& values = parsed_.columns[p].values;
      values.resize(values.size() + vertices);
      read_values(bytes, item_bytes, vertices, type, big_endian, &values.back() - (vertices - 1));
      bytes += type.size;
    }
  }

  void begin_list() {
    fans_.begin();
    in_strip_ = 0;
  }

  void add_corner(double number, std::uint64_t item) {
    const std::int64_t corner = std::abs(number) < 9e18 ? static_cast<std::int64_t>(number) : -2;
    if (static_cast<double>(corner) != number) {
      refuse(element_.what() + ", item " + text_of(item), "a corner that is not a whole number",
             "the index of a vertex");
    }
    if (role_ == Role::polygons) {
      fans_.add(corner);
    } else {
      add_to_strip(corner);
    }
  }

 private:
  // The corners a, b, c, d of a strip give the triangles (a, b, c) and (c, b, d), so that all face the same side. -1
  // ends a strip.
  void add_to_strip(std::int64_t corner) {
    if (corner == -1) {
      in_strip_ = 0;
      return;
    }
    if (in_strip_ >= 2) {
      const bool odd = in_strip_ % 2 == 1;
      parsed_.faces.insert(parsed_.faces.end(), {strip_[odd], strip_[!odd], corner});
    }
    strip_[0] = strip_[1];
    strip_[1] = corner;
    ++in_strip_;
  }

  const Element& element_;
  Role role_;
  Parsed& parsed_;
  Fans fans_;
  bool has_corners_ = false;
  std::int64_t strip_[2] = {};  // the last two corners
  std::uint64_t in_strip_ = 0;
};

class BinaryBody {
 public:
  BinaryBody(std::string_view bytes, bool big_endian) : rest_(bytes), big_endian_(big_endian) {}

  std::string_view rest() const { return rest_; }

  void read(const Element& element, Target& target) {
    std::size_t least_bytes = 0, triangle_bytes = 0;
    bool lists = false;
    for (const Property& property : element.properties) {
      least_bytes += property.length ? property.length->size : property.type.size;
      triangle_bytes += target.is_corners(property) ? 3 * property.type.size : 0;
      lists = lists || property.length;
    }
    if (least_bytes == 0) return;  // no properties, so no bytes
    const std::size_t most = rest_.size() / least_bytes;
    if (!lists && element.count > most) refuse_cut_after(most, element);
    target.reserve(rest_.size() / (least_bytes + triangle_bytes));
    if (lists) {
      for (std::uint64_t i = 0; i < element.count; ++i) read_item(element, target, i);
    } else {
      read_fixed(static_cast<std::size_t>(element.count), least_bytes, target);
    }
  }

 private:
  void read_fixed(std::size_t count, std::size_t item_bytes, Target& target) {
    constexpr std::size_t block = 1024;  // stays in the cache while its columns are read one after the other
    for (std::size_t i = 0; i < count && target.is_vertices(); i += block) {
      target.add_block(rest_.data() + i * item_bytes, item_bytes, std::min(block, count - i), big_endian_);
    }
    rest_.remove_prefix(count * item_bytes);
  }

  void read_item(const Element& element, Target& target, std::uint64_t item) {
    std::size_t column = 0;
    for (const Property& property : element.properties) {
      if (!property.length) {
        const char* bytes = take(1, property.type.size, element, item);
        if (target.is_vertices()) target.add_scalar(column++, value_of(bytes, property.type, big_endian_));
        continue;
      }
      const double length = value_of(take(1, property.length->size, element, item), *property.length, big_endian_);
      if (length < 0) {
        refuse(element.what() + ", item " + text_of(item), "a list of negative length", "0 or more");
      }
      const char* bytes = take(length, property.type.size, element, item);
      if (!target.is_corners(property)) continue;
      corners_.resize(static_cast<std::size_t>(length));
      read_values(bytes, property.type.size, corners_.size(), property.type, big_endian_, corners_.data());
      target.begin_list();
      for (const double corner : corners_) target.add_corner(corner, item);
    }
  }

  const char* take(double count, std::size_t size, const Element& element, std::uint64_t item) {
    if (count > static_cast<double>(rest_.size() / size)) refuse_cut_after(item, element);
    const char* bytes = rest_.data();
    rest_.remove_prefix(static_cast<std::size_t>(count) * size);
    return bytes;
  }

  std::string_view rest_;
  bool big_endian_;
  std::vector<double> corners_;  // of one list
};

// One line per item of an element; blank lines are ignored.
class TextBody {
 public:
  explicit TextBody(const Lines& lines) : lines_(lines) {}

  std::string_view rest() const { return lines_.rest(); }

  void read(const Element& element, Target& target) {
    if (element.properties.empty()) return;  // no properties, so no lines
    // At least a character and a separator per property; the end of the last line may be missing.
    const std::size_t words = element.properties.size() + (target.is_vertices() ? 0 : 3);
    target.reserve((lines_.rest().size() + 1) / (2 * words));
    for (std::uint64_t i = 0; i < element.count; ++i) {
      do {
        if (!lines_.next(line_)) refuse_cut_after(i, element);
      } while (trimmed(line_).empty());
      read_line(element, target, i);
    }
  }

 private:
  void read_line(const Element& element, Target& target, std::uint64_t item) {
    std::string_view rest = line_, word;
    words_ = 0;
    std::size_t column = 0;
    for (const Property& property : element.properties) {
      next(element, rest, word);
      if (!property.length) {
        if (target.is_vertices()) target.add_scalar(column++, number_of(word));
        continue;
      }
      const std::optional<std::uint64_t> length = whole_number(word);
      if (!length) refuse(lines_.where(words_ - 1), excerpt(word), "the length of a list");
      const bool corners = target.is_corners(property);
      if (corners) target.begin_list();
      for (std::uint64_t i = 0; i < *length; ++i) {
        next(element, rest, word);
        if (corners) target.add_corner(number_of(word), item);
      }
    }
    if (target.is_vertices() && next_word(rest, word)) {
      refuse(lines_.where(words_), "one number too many, " + excerpt(word),
             text_of(words_) + " numbers for the properties of " + element.what());
    }
  }

  void next(const Element& element, std::string_view& rest, std::string_view& word) {
    if (!next_word(rest, word)) {
      refuse(lines_.where(), text_of(words_) + " numbers in " + excerpt(line_),
             "more for the " + text_of(element.properties.size()) + " properties of " + element.what());
    }
    ++words_;
  }

  double number_of(std::string_view word) const {
    const std::optional<double> number = number_in(word);
    if (!number) refuse(lines_.where(words_ - 1), excerpt(word), "a number");
    return *number;
  }

  Lines lines_;
  std::string_view line_;
  std::size_t words_ = 0;  // read from the line
};

template <class Body>
void read_elements(const Header& header, Body body, Parsed& parsed) {
  for (const Element& element : header.elements) {
    Target target(element, parsed);
    body.read(element, target);
  }
  note_rest(body.rest(), parsed.notes);
}

}  // namespace

Parsed parse_ply(std::string_view bytes, const Source&) {
  Lines lines(bytes, bytes.substr(0, 4) == "ply\r" && bytes.substr(4, 1) != "\n");
  const Header header = header_of(lines);
  const auto vertices = std::count_if(header.elements.begin(), header.elements.end(),
                                      [](const Element& element) { return role_of(element) == Role::vertices; });
  if (vertices != 1) refuse("", std::to_string(vertices) + " elements with the name vertex", "1");
  Parsed parsed;
  if (header.layout == Layout::text) {
    parsed.format = "PLY, ASCII";
    read_elements(header, TextBody(lines), parsed);
    check_declared_bits(parsed.columns);
  } else {
    const bool big_endian = header.layout == Layout::big_endian;
    parsed.format = big_endian ? "PLY, binary big-endian" : "PLY, binary little-endian";
    read_elements(header, BinaryBody(lines.rest(), big_endian), parsed);
  }
  return parsed;
}

}  // namespace bipointnet::clouds
