#include "clouds.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace bipointnet {
namespace {

constexpr const char* kBlanks = " \t\v\f\r";
constexpr const char* kFinite = "a finite number within float32";
constexpr std::size_t kMostPrinted = 40;

using Words = std::vector<std::string_view>;

[[noreturn]] void refuse(const std::string& what, const std::string& found, const std::string& expected) {
  throw CloudError((what.empty() ? "" : what + ": ") + found + ", expected " + expected);
}

std::string text_of(std::size_t number) { return std::to_string(number); }

// A part of a file as an error shows it.
std::string quoted(std::string_view text) {
  std::string shown = "'";
  for (const char c : text.substr(0, kMostPrinted)) shown += c >= 0x20 && c < 0x7F ? c : '?';
  return shown + (text.size() > kMostPrinted ? "...'" : "'");
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string lowered(std::string_view text) {
  std::string low(text);
  for (char& c : low) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return low;
}

// The lines of a text, which end with \n, \r\n or \r.
class Lines {
 public:
  // lone_returns: every \r ends a line, and a \n behind it is the next line's.
  explicit Lines(std::string_view text, bool lone_returns = false) : rest_(text), lone_returns_(lone_returns) {}

  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find_first_of("\r\n");
    line = rest_.substr(0, end);
    std::size_t used = end == std::string_view::npos ? rest_.size() : end + 1;
    if (!lone_returns_ && rest_[used - 1] == '\r' && used < rest_.size() && rest_[used] == '\n') ++used;
    rest_.remove_prefix(used);
    ++number_;
    return true;
  }

  std::string_view rest() const { return rest_; }
  std::string where() const { return "line " + text_of(number_); }
  std::string where(std::size_t column) const { return where() + ", column " + text_of(column + 1); }

 private:
  std::string_view rest_;
  bool lone_returns_;
  std::size_t number_ = 0;
};

// Up to `most` words between blanks.
void split_blanks(std::string_view line, std::size_t most, Words& words) {
  words.clear();
  while (words.size() < most) {
    const std::size_t first = line.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) return;
    line.remove_prefix(first);
    words.push_back(line.substr(0, line.find_first_of(kBlanks)));
    line.remove_prefix(words.back().size());
  }
}

// Up to `most` fields of a line: between semicolons where it has one, else between commas, else between blanks. So the
// fields of "1,5;2" are "1,5", which is no number, and "2", and never the three numbers of a wrong point.
void split_fields(std::string_view line, std::size_t most, Words& fields) {
  const char mark = line.find(';') != std::string_view::npos ? ';' : ',';
  if (line.find(mark) == std::string_view::npos) {
    split_blanks(line, most, fields);
  } else {
    fields.clear();
    for (std::size_t end = 0; end != std::string_view::npos && fields.size() < most;) {
      end = line.find(mark);
      fields.push_back(trimmed(line.substr(0, end)));
      if (end != std::string_view::npos) line.remove_prefix(end + 1);
    }
  }
  for (std::string_view& field : fields) {
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
  }
}

std::optional<std::size_t> whole_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// [+-] digits [. digits] [e [+-] digits]: what strtod() takes, less hexadecimals, infinities and NaNs.
bool is_number(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t first = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - first;
  };
  const auto one_of = [&](std::string_view marks) {
    const bool found = at < text.size() && marks.find(text[at]) != std::string_view::npos;
    if (found) ++at;
    return found;
  };
  one_of("+-");
  std::size_t count = digits();
  if (one_of(".")) count += digits();
  if (count == 0) return false;
  if (one_of("eE")) {
    one_of("+-");
    if (digits() == 0) return false;
  }
  return at == text.size();
}

bool fits(double number) { return std::abs(number) <= double{std::numeric_limits<float>::max()}; }  // false for NaN

// A number of a text. `column` is counted from 0.
double number_of(std::string_view text, const Lines& lines, std::size_t column) {
  const double number = is_number(text) ? std::strtod(std::string(text).c_str(), nullptr) : std::nan("");
  if (!fits(number)) refuse(lines.where(column), quoted(text), kFinite);
  return number;
}

[[noreturn]] void refuse_number(double number, std::size_t point, std::string_view name) {
  char shown[32];
  std::snprintf(shown, sizeof shown, "%g", number);
  refuse("point " + text_of(point) + " (counted from 0)", quoted(name) + " is " + shown, kFinite);
}

std::vector<double> required_points(std::vector<double> numbers) {
  if (numbers.empty()) refuse("", "0 points", "at least 1");
  return numbers;
}

// Places of x, y and z, then of the others in order, `channels` in all of at least as many names. Nothing where x, y or
// z is not among them.
std::optional<std::vector<std::size_t>> columns_of(const Words& names, std::size_t channels) {
  std::vector<std::size_t> columns(3, names.size()), others;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t axis = names[i].size() == 1 ? std::string_view("xyz").find(lowered(names[i])) : std::string::npos;
    if (axis == std::string::npos) {
      others.push_back(i);
    } else if (columns[axis] == names.size()) {
      columns[axis] = i;
    } else {
      refuse("", "two columns with the name " + quoted(names[i]), "one");
    }
  }
  if (*std::max_element(columns.begin(), columns.end()) == names.size()) return std::nullopt;
  columns.insert(columns.end(), others.begin(), others.begin() + static_cast<std::ptrdiff_t>(channels - 3));
  return columns;
}

// Whether these are names of columns rather than numbers, good or bad.
bool are_names(const Words& fields) {
  return std::none_of(fields.begin(), fields.end(), [](std::string_view field) {
    const std::string low = lowered(field);
    return low.empty() || std::strchr("+-.0123456789", low[0]) || low == "nan" || low == "inf" || low == "infinity";
  });
}

enum class Kind { integer, natural, real };

struct Scalar {
  std::string_view name, other_name;  // in PLY
  std::size_t size;
  Kind kind;
};

constexpr Scalar kFloat32 = {"float", "float32", 4, Kind::real};
constexpr Scalar kScalars[] = {kFloat32,
                               {"double", "float64", 8, Kind::real},
                               {"char", "int8", 1, Kind::integer},
                               {"uchar", "uint8", 1, Kind::natural},
                               {"short", "int16", 2, Kind::integer},
                               {"ushort", "uint16", 2, Kind::natural},
                               {"int", "int32", 4, Kind::integer},
                               {"uint", "uint32", 4, Kind::natural}};

double value_of(std::string_view bytes, const Scalar& type, bool big_endian) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < type.size; ++i) {
    const std::size_t place = big_endian ? type.size - 1 - i : i;
    word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * place;
  }
  if (type.kind != Kind::real) {  // at most 32 bits
    const auto number = static_cast<std::int64_t>(word);
    const std::int64_t modulus = std::int64_t{1} << 8 * type.size;
    return static_cast<double>(type.kind == Kind::natural || number < modulus / 2 ? number : number - modulus);
  }
  if (type.size == 4) {
    const auto low = static_cast<std::uint32_t>(word);
    float number = 0;
    std::memcpy(&number, &low, sizeof number);
    return double{number};
  }
  double number = 0;
  std::memcpy(&number, &word, sizeof number);
  return number;
}

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
  refuse(lines.where(), "the type " + quoted(name), "one of PLY's, like float or uchar");
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
  if (!count) refuse(lines.where(), "an element ending with " + quoted(words.back()), "'element NAME COUNT'");
  return {words[1], *count, {}};
}

Property property_of(const Words& words, const Lines& lines) {
  if (words.size() == 3) return {words[2], scalar_named(words[1], lines), nullptr};
  if (words.size() != 5 || words[1] != "list") {
    refuse(lines.where(), "a property ending with " + quoted(words.back()),
           "'property TYPE NAME' or 'property list TYPE TYPE NAME'");
  }
  const Property property{words[4], scalar_named(words[3], lines), scalar_named(words[2], lines)};
  if (property.count->kind == Kind::real) {
    refuse(lines.where(), "a list counted by " + quoted(words[2]), "a type of whole numbers");
  }
  return property;
}

// Leaves `lines` at the body.
PlyHeader ply_header(Lines& lines) {
  std::optional<Layout> layout;
  std::vector<Element> elements;
  std::string_view line;
  Words words;
  if (!lines.next(line) || trimmed(line) != "ply") refuse("", "a file that begins with " + quoted(line), "'ply'");
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
      refuse(lines.where(), quoted(words[0]), layout ? "element, property, comment or end_header" : "format");
    }
  }
  refuse(lines.where(), "the file ends in its header", "end_header");
}

// Where each of an element's properties goes among the numbers of a point; nothing for one that is not needed.
using Places = std::vector<std::optional<std::size_t>>;

Places places_of(const Element& vertex, std::size_t channels) {
  Words names;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < vertex.properties.size(); ++i) {
    if (vertex.properties[i].count) continue;
    names.push_back(vertex.properties[i].name);
    indices.push_back(i);
  }
  const std::string found = text_of(names.size()) + " numbers a vertex";
  if (names.size() < channels) refuse("", found, "at least the " + text_of(channels) + " that the model reads");
  const std::optional<std::vector<std::size_t>> columns = columns_of(names, channels);
  if (!columns) refuse("", found + ", not all of x, y and z among them", "these three");
  Places places(vertex.properties.size());
  for (std::size_t c = 0; c < channels; ++c) places[indices[(*columns)[c]]] = c;
  return places;
}

std::string what_of(const Element& element) { return "element " + quoted(element.name); }

[[noreturn]] void refuse_end(const Element& element, std::size_t index) {
  refuse(what_of(element), "the file ends after " + text_of(index), text_of(element.count));
}

// Refuses a count that the rest of the file cannot hold, so that no count sizes anything before it was checked.
void require_room(const Element& element, std::size_t least_bytes, std::size_t room) {
  if (element.count <= room / least_bytes) return;
  refuse(what_of(element), text_of(room) + " bytes",
         text_of(element.count) + " times at least " + text_of(least_bytes) + " bytes");
}

class BinaryBody {
 public:
  BinaryBody(std::string_view bytes, bool big_endian) : rest_(bytes), big_endian_(big_endian) {}

  // Reads an element, or skips it where `places` is empty.
  void read(const Element& element, const Places& places, std::size_t channels, std::vector<double>& numbers) {
    std::size_t least_bytes = 0;
    bool lists = false;
    for (const Property& property : element.properties) {
      least_bytes += property.count ? property.count->size : property.type->size;
      lists = lists || property.count;
    }
    if (least_bytes == 0) return;  // no properties, so no bytes whatever the count
    require_room(element, least_bytes, rest_.size());
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

// One line for each of an element, blank lines aside.
class TextBody {
 public:
  explicit TextBody(Lines lines) : lines_(lines) {}

  // Reads an element, or skips it where `places` is empty.
  void read(const Element& element, const Places& places, std::size_t channels, std::vector<double>& numbers) {
    if (element.properties.empty()) return;  // nothing but blank lines, whatever the count
    // A character and a blank or an end of line for each property; the last of the file may lack its end.
    require_room(element, 2 * element.properties.size(), lines_.rest().size() + 1);
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
      if (!length) refuse(lines_.where(column), quoted(words_[column]), "the length of a list");
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

struct Format {
  const char* suffix;
  std::vector<double> (*parse)(std::string_view, std::size_t);
};

constexpr Format kFormats[] = {{".xyz", parse_text},   {".txt", parse_text},   {".csv", parse_text},
                               {".pts", parse_text},   {".ply", parse_ply},    {".f32", parse_floats},
                               {".bin", parse_floats}, {".raw", parse_floats}};

const Format& format_of(const std::string& path) {
  const std::size_t dot = path.find_last_of("./");
  const std::string suffix = dot == std::string::npos || path[dot] == '/' ? "" : lowered(path.substr(dot));
  for (const Format& format : kFormats) {
    if (suffix == format.suffix) return format;
  }
  refuse("", "the suffix is " + quoted(suffix), "one of " + cloud_suffixes());
}

std::string read_all(std::FILE* file) {
  std::string bytes;
  char part[65536];
  while (const std::size_t count = std::fread(part, 1, sizeof part, file)) bytes.append(part, count);
  if (std::ferror(file)) refuse("", std::string("cannot be read (") + std::strerror(errno) + ")", "a cloud");
  return bytes;
}

std::string read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) refuse("", std::string("cannot be opened (") + std::strerror(errno) + ")", "a file with a cloud");
  return read_all(file.get());
}

}  // namespace

std::string cloud_suffixes() {
  std::string all;
  for (const Format& format : kFormats) all += (all.empty() ? "" : " ") + std::string(format.suffix);
  return all;
}

std::vector<double> parse_text(std::string_view bytes, std::size_t channels) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (bytes.substr(0, byte_order_mark.size()) == byte_order_mark) bytes.remove_prefix(byte_order_mark.size());
  std::vector<std::size_t> columns(channels);
  for (std::size_t c = 0; c < channels; ++c) columns[c] = c;
  std::size_t needed = channels;  // columns of a line
  std::optional<std::size_t> declared;
  bool leading = true;  // whether the number of points or the names of the columns may come
  std::vector<double> numbers;
  Words fields;
  Lines lines(bytes);
  for (std::string_view line; lines.next(line);) {
    line = trimmed(line.substr(0, std::min(line.find('#'), line.find("//"))));
    if (line.empty()) continue;
    if (leading && !declared && line.find_first_not_of("0123456789") == std::string_view::npos) {
      declared = whole_number(line);
      if (!declared) refuse(lines.where(), quoted(line), "a number of points that a file can hold");
      continue;
    }
    if (std::exchange(leading, false)) {
      split_fields(line, line.size(), fields);
      if (fields.size() >= channels && are_names(fields)) {
        columns = columns_of(fields, channels).value_or(columns);
        needed = 1 + *std::max_element(columns.begin(), columns.end());
        continue;
      }
    }
    split_fields(line, needed, fields);
    if (fields.size() < needed) {
      const std::string found = text_of(fields.size()) + (fields.size() == 1 ? " column" : " columns");
      refuse(lines.where(), found + " in " + quoted(line), "at least " + text_of(needed));
    }
    for (const std::size_t column : columns) numbers.push_back(number_of(fields[column], lines, column));
  }
  const std::size_t points = numbers.size() / channels;
  if (points < declared.value_or(0)) refuse("", text_of(points) + " points", text_of(*declared) + ", its first line");
  return required_points(std::move(numbers));
}

std::vector<double> parse_floats(std::string_view bytes, std::size_t channels) {
  if (bytes.size() % (4 * channels) != 0) {
    refuse("", text_of(bytes.size()) + " bytes",
           "a multiple of " + text_of(4 * channels) + ", " + text_of(channels) + " float32 a point");
  }
  std::vector<double> numbers(bytes.size() / 4);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = value_of(bytes.substr(4 * i, 4), kFloat32, false);
    if (!fits(numbers[i])) refuse_number(numbers[i], i / channels, "number " + text_of(i % channels));
  }
  return required_points(std::move(numbers));
}

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

std::vector<float> narrowed(const std::vector<double>& numbers, std::size_t channels, bool relative) {
  std::vector<float> narrow(numbers.size());
  double low[3], high[3], error = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) low[axis] = high[axis] = numbers[axis];
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    narrow[i] = static_cast<float>(numbers[i]);
    const std::size_t axis = i % channels;
    if (axis >= 3) continue;
    low[axis] = std::min(low[axis], numbers[i]);
    high[axis] = std::max(high[axis], numbers[i]);
    error = std::max(error, std::abs(double{narrow[i]} - numbers[i]));
  }
  const double extent = std::max({high[0] - low[0], high[1] - low[1], high[2] - low[2]});
  if (!relative || error <= 1e-5 * extent || extent == 0) return narrow;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t axis = i % channels;
    if (axis < 3) narrow[i] = static_cast<float>(numbers[i] - std::floor(low[axis]));
  }
  return narrow;
}

std::vector<float> read_cloud(const std::string& path, std::size_t channels, bool relative) {
  try {
    if (path == "-") return narrowed(parse_text(read_all(stdin), channels), channels, relative);
    const Format& format = format_of(path);
    return narrowed(format.parse(read_file(path), channels), channels, relative);
  } catch (const CloudError& error) {
    throw CloudError((path == "-" ? "standard input" : path) + ": " + error.what());
  }
}

}  // namespace bipointnet
