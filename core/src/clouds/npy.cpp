// Arrays of NumPy in .npy files, versions 1.0 to 3.0. The header is a Python literal like
//
//   {'descr': '<f4', 'fortran_order': False, 'shape': (100, 3), }
//   {'descr': [('x', '<f4'), ('', '|V4'), ('pos', '<f8', (3,))], 'fortran_order': False, 'shape': (100,), }
//
// An array has a row per point and three columns or more; a structured array has a record per point.
#include <algorithm>
#include <utility>

#include "clouds/columns.h"
#include "clouds/formats.h"
#include "clouds/lines.h"
#include "clouds/scalars.h"

namespace bipointnet::clouds {
namespace {

constexpr const char* kHeader = "the header of a NumPy array; save it again with numpy.save";
constexpr std::size_t kMaxDepth = 8;
constexpr std::size_t kMaxName = 256;                          // every field of a record repeats the name of the record
constexpr std::uint64_t kMaxProduct = std::uint64_t{1} << 60;  // no file holds so much, and products do not overflow
constexpr std::size_t kMostColumns = 64;  // of an array without names; a wider one is likely transposed

// A number in a record.
struct Element {
  std::string name;
  std::size_t at;
  Scalar type;
  bool big_endian;
};

struct Record {
  std::size_t size = 0;
  std::vector<Element> elements;
  std::vector<std::string> left_out;  // names of fields that hold no numbers
  bool has_names = false;
};

struct Description {
  Record record;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size() && i < 6; ++i) text += (i ? ", " : "") + text_of(shape[i]);
  return text + (shape.size() > 6 ? ", ...)" : shape.size() == 1 ? ",)" : ")");
}

std::uint64_t product_of(const std::vector<std::uint64_t>& shape) {
  std::uint64_t product = 1;
  for (const std::uint64_t length : shape) {
    if (length > 0 && product > kMaxProduct / length)
      refuse("", "the shape " + shape_text(shape), "one that a file can hold");
    product *= length;
  }
  return product;
}

// A strict parser of the literals that NumPy writes.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Description parse() {
    Description description;
    bool has_type = false, has_order = false, has_shape = false;
    take('{');
    while (!taken('}')) {
      const std::string key = take_string();
      take(':');
      if (key == "descr" && !has_type) {
        take_type(description.record, "", kMaxDepth);
        has_type = true;
      } else if (key == "fortran_order" && !has_order) {
        description.fortran_order = take_bool();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        description.shape = take_shape();
        has_shape = true;
      } else {
        refuse("", "the key " + excerpt(key), kHeader);
      }
      if (!taken(',')) {
        take('}');
        break;
      }
    }
    skip_blanks();
    if (at_ != text_.size() || !has_type || !has_order || !has_shape) fail();
    return description;
  }

 private:
  [[noreturn]] void fail() {
    refuse("", "a header with " + excerpt(text_.substr(std::min(at_, text_.size()))), kHeader);
  }

  void skip_blanks() {
    while (at_ < text_.size() && (is_blank(text_[at_]) || text_[at_] == '\n')) ++at_;
  }

  bool taken(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void take(char c) {
    if (!taken(c)) fail();
  }

  bool is_next(char c) {
    skip_blanks();
    return at_ < text_.size() && text_[at_] == c;
  }

  std::string take_string() {
    const char quote = is_next('"') ? '"' : '\'';
    take(quote);
    std::string text;
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && ++at_ == text_.size()) fail();
      text += text_[at_];
    }
    take(quote);
    return text;
  }

  bool take_bool() {
    skip_blanks();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    fail();
  }

  std::uint64_t take_number() {
    skip_blanks();
    const std::size_t first = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    const std::optional<std::uint64_t> number = whole_number(text_.substr(first, at_ - first));
    if (!number) fail();
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // NumPy under Python 2
    return *number;
  }

  std::vector<std::uint64_t> take_shape() {
    constexpr std::size_t most_dimensions = 64;  // of NumPy
    std::vector<std::uint64_t> shape;
    take('(');
    while (!taken(')')) {
      shape.push_back(take_number());
      if (shape.size() > most_dimensions) fail();
      if (!taken(',')) {
        take(')');
        break;
      }
    }
    return shape;
  }

  // '<f4' or a list of fields.
  void take_type(Record& record, const std::string& name, std::size_t depth) {
    if (depth == 0) fail();
    if (!is_next('[')) {
      add_scalar(record, name, take_string(), {});
      return;
    }
    record.has_names = true;
    take('[');
    while (!taken(']')) {
      take_field(record, name, depth);
      if (!taken(',')) {
        take(']');
        break;
      }
    }
  }

  // ('name', '<f4'), ('name', '<f4', (3,)) or ('name', [fields]); ('title', 'name') may stand for 'name'.
  void take_field(Record& record, const std::string& prefix, std::size_t depth) {
    take('(');
    std::string name;
    if (taken('(')) {
      take_string();
      take(',');
      name = take_string();
      take(')');
    } else {
      name = take_string();
    }
    if (name.size() > kMaxName)
      refuse("", "the field " + excerpt(name), "a name of at most " + text_of(kMaxName) + " bytes");
    if (!prefix.empty()) name = prefix + "_" + name;
    take(',');
    if (is_next('[')) {
      take_type(record, name, depth - 1);
      taken(',');
      if (is_next('('))
        refuse("", "the field " + excerpt(name) + " with an array of records", "numbers; save them apart");
    } else {
      const std::string type = take_string();
      taken(',');
      const bool is_array = is_next('(');
      add_scalar(record, name, type, is_array ? take_shape() : std::vector<std::uint64_t>{});
      taken(',');
    }
    take(')');
  }

  void add_scalar(Record& record, const std::string& name, const std::string& type, std::vector<std::uint64_t> shape) {
    if (type == "|O" || type == "O") {
      refuse("", "Python objects (dtype object)", "numbers; convert the array with astype('float32')");
    }
    if (type.size() < 3 || std::string_view("<>|=").find(type[0]) == std::string_view::npos) {
      refuse("", "the type " + excerpt(type), kHeader);
    }
    const std::size_t unit = std::min(type.find('['), type.size());  // '<M8[ns]'
    const std::uint64_t length = whole_number(std::string_view(type).substr(2, unit - 2)).value_or(kMaxProduct);
    if (length > kMaxProduct / 4) refuse("", "the type " + excerpt(type), kHeader);
    const char kind = type[1];
    const bool skipped = kind == 'V' || kind == 'S' || kind == 'a' || kind == 'U' || kind == 'M' || kind == 'm';
    const bool whole = kind == 'i' || kind == 'u' || kind == 'b';
    const bool known = (whole && (length == 1 || length == 2 || length == 4 || length == 8)) ||
                       (kind == 'f' && (length == 2 || length == 4 || length == 8));
    if (!skipped && !known)
      refuse("", "the type " + excerpt(type), "real numbers; convert the array with astype('float32')");
    const std::uint64_t count = product_of(shape);
    const std::uint64_t each = kind == 'U' ? 4 * length : length;
    if (each > 0 && count > kMaxProduct / each)
      refuse("", "the shape " + shape_text(shape), "one that a file can hold");
    const std::uint64_t size = record.size + count * each;
    if (size > kMaxProduct || size > SIZE_MAX / 2) refuse("", "records of " + text_of(size) + " bytes", kHeader);
    if (skipped) {
      if (!name.empty() && record.left_out.size() < kMaxColumns) record.left_out.push_back(name);
      if (!record.has_names)
        refuse("", "the type " + excerpt(type), "real numbers; convert the array with astype('float32')");
    } else {
      if (count > kMaxColumns - record.elements.size()) {
        refuse("", "more than " + text_of(kMaxColumns) + " columns",
               "fewer; save the coordinates in an array of their own");
      }
      const Scalar scalar = {static_cast<std::size_t>(length), kind == 'f'   ? ScalarKind::real
                                                               : kind == 'i' ? ScalarKind::signed_integer
                                                                             : ScalarKind::unsigned_integer};
      for (std::size_t i = 0; i < count; ++i) {
        const std::string element_name = shape.empty() ? name : name + "_" + text_of(i);
        record.elements.push_back({element_name, record.size + i * scalar.size, scalar, type[0] == '>'});
      }
    }
    record.size = static_cast<std::size_t>(size);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Splits off the header.
Description take_description(std::string_view& bytes) {
  constexpr std::string_view magic = "\x93NUMPY";
  if (bytes.substr(0, magic.size()) != magic) {
    refuse("", "begins with " + excerpt(bytes.substr(0, magic.size())), "'?NUMPY'; check that the suffix is right");
  }
  const auto byte = [&bytes](std::size_t at) {
    if (at >= bytes.size())
      refuse("", "the end of the file in its header", "an array; copy the file again from its source");
    return std::size_t{static_cast<unsigned char>(bytes[at])};
  };
  const std::size_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0) {
    refuse("", "version " + text_of(major) + "." + text_of(minor), "1.0, 2.0 or 3.0 of the .npy format");
  }
  std::size_t begin = 10;
  std::uint64_t size = byte(8) | byte(9) << 8;
  if (major > 1) {
    begin = 12;
    size |= std::uint64_t{byte(10)} << 16 | std::uint64_t{byte(11)} << 24;
  }
  if (size > bytes.size() - begin) {
    refuse("", "the end of the file in its header", "an array; copy the file again from its source");
  }
  const std::string_view header = bytes.substr(begin, static_cast<std::size_t>(size));
  bytes.remove_prefix(begin + header.size());
  return HeaderParser(header).parse();
}

// The number of points and columns of an array without names.
std::pair<std::uint64_t, std::uint64_t> table_size(const std::vector<std::uint64_t>& shape) {
  const bool wide = shape.size() == 2 && (shape[1] > kMostColumns || (shape[0] == 3 && shape[1] > 16));
  if (wide) refuse("", "an array of shape " + shape_text(shape), "(points, 3 or more); transpose it");
  if (shape.size() != 2 || shape[1] < 3) {
    refuse("", "an array of shape " + shape_text(shape), "(points, 3 or more); reshape it");
  }
  return {shape[0], shape[1]};
}

}  // namespace

Parsed parse_npy(std::string_view bytes, const Source& source) {
  const Description array = take_description(bytes);
  const Record& record = array.record;
  const bool named = record.has_names;
  if (record.size == 0) refuse("", "records of 0 bytes", "numbers");
  if (named && array.shape.empty()) refuse("", "an array of shape ()", "one record per point; reshape it");
  const auto [rows, width] = named ? std::pair(product_of(array.shape), std::uint64_t{1}) : table_size(array.shape);
  const std::uint64_t total = product_of(array.shape);
  if (total > bytes.size() / record.size) {
    refuse("", text_of(bytes.size()) + " bytes after the header",
           "the shape " + shape_text(array.shape) + "; the file is cut short, copy it again from its source");
  }
  Parsed parsed;
  parsed.format = named ? "NumPy, structured" : "NumPy, " + text_of(8 * record.size) + "-bit numbers";
  const std::size_t needed = static_cast<std::size_t>(total) * record.size;
  if (bytes.size() > needed) {
    parsed.notes.push_back(text_of(bytes.size() - needed) + " bytes after the array were left out");
  }
  for (const std::string& name : record.left_out) {
    parsed.notes.push_back("the field " + excerpt(name) + " holds no numbers and was left out");
  }
  if (!named && !source.columns.empty()) check_column_count(source.columns, static_cast<std::size_t>(width), "");
  if (named && !source.columns.empty()) {
    refuse("", "--columns for an array that names its fields", "no --columns; rename the fields in the file");
  }
  const auto count = static_cast<std::size_t>(rows);
  const std::size_t column_count = named ? record.elements.size() : static_cast<std::size_t>(width);
  for (std::size_t c = 0; c < column_count; ++c) {
    const Element& element = record.elements[named ? c : 0];
    const std::string name = source.columns.empty() ? element.name : source.columns[c];
    if (name == "-" && !source.columns.empty()) continue;
    // Where the column begins, and from one row to the next. Records are in the order of the file.
    const std::size_t step = named ? record.size : record.size * (array.fortran_order ? 1 : column_count);
    const std::size_t begin = named ? element.at : record.size * c * (array.fortran_order ? count : 1);
    Column column{name, element.type.bits(), std::vector<double>(count)};
    read_values(bytes.data() + begin, step, count, element.type, element.big_endian, column.values.data());
    parsed.columns.push_back(std::move(column));
  }
  if (!named && source.columns.empty()) name_by_position(parsed.columns, source.suffix, parsed.notes);
  return parsed;
}

}  // namespace bipointnet::clouds
