// The reader of PLY: the header declares what the body holds, as text or as binary of either byte order.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "cloud_parts.h"
#include "clouds.h"

namespace bipointnet {
namespace {

constexpr Scalar kScalars[] = {kFloat32,
                               {"double", "float64", 8, ScalarKind::real},
                               {"char", "int8", 1, ScalarKind::integer},
                               {"uchar", "uint8", 1, ScalarKind::natural},
                               {"short", "int16", 2, ScalarKind::integer},
                               {"ushort", "uint16", 2, ScalarKind::natural},
                               {"int", "int32", 4, ScalarKind::integer},
                               {"uint", "uint32", 4, ScalarKind::natural}};

struct Property {
  std::string_view name;
  const Scalar* type;
  const Scalar* count;  // of a list; else null
};

struct Element {
  std::string_view name;
  std::size_t count;
  std::vector<Property> properties;
};

enum class Layout { text, little_endian, big_endian };

struct PlyHeader {
  Layout layout;
  std::vector<Element> elements;
};

const Scalar* scalar_named(std::string_view name, const Lines& lines) {
  for (const Scalar& scalar : kScalars) {
    if (name == scalar.name || name == scalar.other_name) return &scalar;
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
  const std::optional<std::size_t> count = words.size() == 3 ? whole_number(words[2]) : std::nullopt;
  if (!count) refuse(lines.where(), "an element ending with " + excerpt(words.back()), "'element NAME COUNT'");
  return {words[1], *count, {}};
}

Property property_of(const Words& words, const Lines& lines) {
  if (words.size() == 3) return {words[2], scalar_named(words[1], lines), nullptr};
  if (words.size() != 5 || words[1] != "list") {
    refuse(lines.where(), "a property ending with " + excerpt(words.back()),
           "'property TYPE NAME' or 'property list TYPE TYPE NAME'");
  }
  const Property property{words[4], scalar_named(words[3], lines), scalar_named(words[2], lines)};
  if (property.count->kind == ScalarKind::real) {
    refuse(lines.where(), "a list counted by " + excerpt(words[2]), "an integer type");
  }
  return property;
}

// Leaves `lines` at the body.
PlyHeader ply_header(Lines& lines) {
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

// For each property of an element, its channel in a point; none if it is not needed.
using Places = std::vector<std::optional<std::size_t>>;

Places places_of(const Element& vertex, std::size_t channels) {
  Words names;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < vertex.properties.size(); ++i) {
    if (vertex.properties[i].count) continue;
    names.push_back(vertex.properties[i].name);
    indices.push_back(i);
  }
  const std::string found = text_of(names.size()) + " properties per vertex";
  if (names.size() < channels) refuse("", found, "at least " + text_of(channels) + ", the channels of the model");
  const std::optional<std::vector<std::size_t>> columns = columns_of(names, channels);
  if (!columns) refuse("", found + ", x, y or z is missing", "all three");
  Places places(vertex.properties.size());
  for (std::size_t c = 0; c < channels; ++c) places[indices[(*columns)[c]]] = c;
  return places;
}

std::string what_of(const Element& element) { return "element " + excerpt(element.name); }

[[noreturn]] void refuse_end(const Element& element, std::size_t index) {
  refuse(what_of(element), "the file ends after " + text_of(index), text_of(element.count));
}

// Rejects a count that the rest of the file cannot hold, before memory is allocated for it.
void require_bytes(const Element& element, std::size_t least_bytes, std::size_t available) {
  if (element.count <= available / least_bytes) return;
  refuse(what_of(element), text_of(available) + " bytes",
         text_of(element.count) + " times at least " + text_of(least_bytes) + " bytes");
}

class BinaryBody {
 public:
  BinaryBody(std::string_view bytes, bool big_endian) : rest_(bytes), big_endian_(big_endian) {}

  // Reads an element, or skips it if `places` is empty.
  void read(const Element& element, const Places& places, std::size_t channels, std::vector<double>& numbers) {
    std::size_t least_bytes = 0;
    bool lists = false;
    for (const Property& property : element.properties) {
      least_bytes += property.count ? property.count->size : property.type->size;
      lists = lists || property.count;
    }
    if (least_bytes == 0) return;  // no properties, so no bytes
    require_bytes(element, least_bytes, rest_.size());
    if (places.empty() && !lists) {
      rest_.remove_prefix(element.count * least_bytes);
      return;
    }
    if (!places.empty()) numbers.resize(element.count * channels);
    for (std::size_t i = 0; i < element.count; ++i) {
      for (std::size_t p = 0; p < element.properties.size(); ++p) {
        const Property& property = element.properties[p];
        if (property.count) {
          skip_list(element, property, i);
          continue;
        }
        const std::string_view bytes = take(1, property.type->size, element, i);
        if (places.empty() || !places[p]) continue;
        const double number = value_of(bytes, *property.type, big_endian_);
        if (!fits(number)) refuse_number(number, i, property.name);
        numbers[i * channels + *places[p]] = number;
      }
    }
  }

 private:
  std::string_view take(std::size_t count, std::size_t size, const Element& element, std::size_t index) {
    if (count > rest_.size() / size) refuse_end(element, index);
    const std::string_view taken = rest_.substr(0, count * size);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  void skip_list(const Element& element, const Property& property, std::size_t index) {
    const double count = value_of(take(1, property.count->size, element, index), *property.count, big_endian_);
    if (count < 0) refuse(what_of(element), "a list of length " + std::to_string(std::lround(count)), "0 or more");
    take(static_cast<std::size_t>(count), property.type->size, element, index);
  }

  std::string_view rest_;
  bool big_endian_;
};

// One line per item of an element; blank lines are ignored.
class TextBody {
 public:
  explicit TextBody(Lines lines) : lines_(lines) {}

  // Reads an element, or skips it if `places` is empty.
  void read(const Element& element, const Places& places, std::size_t channels, std::vector<double>& numbers) {
    if (element.properties.empty()) return;  // no properties, so no lines
    // At least a character and a separator per property; the end of the last line may be missing.
    require_bytes(element, 2 * element.properties.size(), lines_.rest().size() + 1);
    if (!places.empty()) numbers.resize(element.count * channels);
    for (std::size_t i = 0; i < element.count; ++i) {
      std::string_view line;
      do {
        if (!lines_.next(line)) refuse_end(element, i);
      } while (trimmed(line).empty());
      read_line(element, places, line, places.empty() ? nullptr : &numbers[i * channels]);
    }
  }

 private:
  void read_line(const Element& element, const Places& places, std::string_view line, double* point) {
    split_blanks(line, line.size(), words_);
    std::size_t column = 0;
    for (std::size_t p = 0; p < element.properties.size(); ++p) {
      const bool list = element.properties[p].count;
      const std::optional<std::size_t> length = list && column < words_.size() ? whole_number(words_[column]) : 0;
      if (!length) refuse(lines_.where(column), excerpt(words_[column]), "the length of a list");
      if (column >= words_.size() || words_.size() - column - 1 < *length) {
        refuse(lines_.where(), text_of(words_.size()) + " numbers",
               "more for the " + text_of(element.properties.size()) + " properties of " + what_of(element));
      }
      if (point && places[p]) point[*places[p]] = number_of(words_[column], lines_, column);
      column += 1 + *length;
    }
  }

  Lines lines_;
  Words words_;
};

}  // namespace

std::vector<double> parse_ply(std::string_view bytes, std::size_t channels) {
  Lines lines(bytes, bytes.substr(0, 4) == "ply\r" && bytes.substr(4, 1) != "\n");
  const PlyHeader header = ply_header(lines);
  const auto is_vertex = [](const Element& element) { return element.name == "vertex"; };
  const auto vertices = std::count_if(header.elements.begin(), header.elements.end(), is_vertex);
  if (vertices != 1) refuse("", std::to_string(vertices) + " elements with the name vertex", "1");
  BinaryBody binary(lines.rest(), header.layout == Layout::big_endian);
  TextBody text(lines);
  std::vector<double> numbers;
  for (const Element& element : header.elements) {
    const Places places = is_vertex(element) ? places_of(element, channels) : Places();
    if (header.layout == Layout::text) {
      text.read(element, places, channels, numbers);
    } else {
      binary.read(element, places, channels, numbers);
    }
  }
  return required_points(std::move(numbers));
}

}  // namespace bipointnet
