// PCD, the format of the Point Cloud Library: the header names the fields of a point, the body holds them as text, as
// binary records, or compressed, field after field.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "clouds/columns.h"
#include "clouds/formats.h"
#include "clouds/lines.h"
#include "clouds/scalars.h"

namespace bipointnet::clouds {
namespace {

constexpr std::uint64_t kMaxNumbersPerPoint = 65536;  // the largest descriptors have some thousand numbers per point
constexpr Scalar kUnsigned32 = {4, ScalarKind::unsigned_integer};

struct Field {
  std::string name;
  Scalar type;
  std::size_t count;  // numbers per point
  bool padding;       // '_': bytes between the members of a C++ struct
  bool color;         // red, green and blue packed into 32 bits

  std::size_t size() const { return count * type.size; }
};

enum class Layout { text, binary, compressed };

struct Header {
  std::vector<Field> fields;
  std::uint64_t points;
  Layout layout;

  std::size_t record_bytes(bool padding = true) const {
    std::size_t bytes = 0;
    for (const Field& field : fields) bytes += padding || !field.padding ? field.size() : 0;
    return bytes;
  }
};

// The words after each key. A vector is empty if the file lacks the line.
struct Entries {
  Words fields, size, type, count, width, height, points;
};

std::uint64_t number_of(const Words& words, const char* key) {
  const std::optional<std::uint64_t> number = words.size() == 1 ? whole_number(words[0]) : std::nullopt;
  if (!number) refuse(key, excerpt(words[0]), "one whole number");
  return *number;
}

std::uint64_t points_of(const Entries& entries) {
  if (entries.width.empty() && entries.points.empty()) refuse("the header", "neither WIDTH nor POINTS", "both");
  if (entries.width.empty()) return number_of(entries.points, "POINTS");
  const std::uint64_t width = number_of(entries.width, "WIDTH");
  const std::uint64_t height = entries.height.empty() ? 1 : number_of(entries.height, "HEIGHT");
  if (height != 0 && width > std::numeric_limits<std::uint64_t>::max() / height) {
    refuse("the header", "WIDTH " + text_of(width) + " and HEIGHT " + text_of(height), "fewer than 2^64 points");
  }
  const std::uint64_t product = width * height;
  const std::uint64_t points = entries.points.empty() ? product : number_of(entries.points, "POINTS");
  if (points != product) {
    refuse("the header", "WIDTH " + text_of(width) + " times HEIGHT " + text_of(height),
           "the " + text_of(points) + " of POINTS; correct the header, or export the file again");
  }
  return points;
}

void require_entry_per_field(const Entries& entries, const Words& words, const char* key) {
  if (words.size() == entries.fields.size() || words.empty()) return;
  refuse(key, text_of(words.size()) + " entries", text_of(entries.fields.size()) + ", one per field");
}

Scalar type_of(const Entries& entries, std::size_t index, bool padding) {
  const std::string letter = entries.type.empty() ? "f" : lowered(entries.type[index]);
  const std::uint64_t size = entries.size.empty() ? 4 : whole_number(entries.size[index]).value_or(0);
  const bool real = letter == "f";
  const bool valid = (size == 4 || size == 8 || ((!real || padding) && (size == 1 || size == 2))) &&
                     (real || letter == "i" || letter == "u");
  if (!valid) {
    refuse("the field " + excerpt(entries.fields[index]),
           "TYPE " + excerpt(entries.type.empty() ? "F" : entries.type[index]) + " of SIZE " +
               excerpt(entries.size.empty() ? "4" : entries.size[index]),
           "F of 4 or 8 bytes, or I or U of 1, 2, 4 or 8");
  }
  const ScalarKind kind = real            ? ScalarKind::real
                          : letter == "i" ? ScalarKind::signed_integer
                                          : ScalarKind::unsigned_integer;
  return {static_cast<std::size_t>(size), kind};
}

std::vector<Field> fields_of(const Entries& entries) {
  if (entries.fields.empty()) refuse("the header", "no FIELDS", "FIELDS x y z");
  require_entry_per_field(entries, entries.size, "SIZE");
  require_entry_per_field(entries, entries.type, "TYPE");
  require_entry_per_field(entries, entries.count, "COUNT");
  std::vector<Field> fields;
  std::uint64_t columns = 0;
  bool color = false;
  for (std::size_t i = 0; i < entries.fields.size(); ++i) {
    const std::string name = lowered(entries.fields[i]);
    const bool padding = name == "_";
    const std::string_view written = entries.count.empty() ? "1" : entries.count[i];
    const std::optional<std::uint64_t> count = whole_number(written);
    columns += count ? std::min(*count, kMaxNumbersPerPoint + 1) : 0;
    if (!count || *count == 0 || columns > kMaxNumbersPerPoint) {
      refuse("the field " + excerpt(entries.fields[i]), "COUNT " + excerpt(written),
             "1 or more, and at most " + text_of(kMaxNumbersPerPoint) + " numbers per point");
    }
    const Scalar type = type_of(entries, i, padding);
    const bool packed = !color && (name == "rgb" || name == "rgba") && type.size == 4 && *count == 1;
    color = color || packed;
    fields.push_back({std::string(entries.fields[i]), type, static_cast<std::size_t>(*count), padding, packed});
  }
  return fields;
}

Layout layout_of(std::string_view name, const Lines& lines) {
  const std::string low = lowered(name);
  if (low == "ascii") return Layout::text;
  if (low == "binary") return Layout::binary;
  if (low == "binary_compressed") return Layout::compressed;
  refuse(lines.where(), "DATA " + excerpt(name), "ascii, binary or binary_compressed");
}

// Leaves `lines` at the body.
Header header_of(Lines& lines) {
  Entries entries;
  const std::pair<const char*, Words*> keys[] = {{"fields", &entries.fields}, {"columns", &entries.fields},
                                                 {"size", &entries.size},     {"type", &entries.type},
                                                 {"count", &entries.count},   {"width", &entries.width},
                                                 {"height", &entries.height}, {"points", &entries.points}};
  std::string_view line, word;
  while (lines.next(line)) {
    if (!next_word(line, word) || word[0] == '#') continue;
    const std::string key = lowered(word);
    if (key == "version" || key == "viewpoint") continue;
    if (key == "data") {
      next_word(line, word);
      const Layout layout = layout_of(word, lines);
      return {fields_of(entries), points_of(entries), layout};
    }
    const auto found =
        std::find_if(std::begin(keys), std::end(keys), [&key](const auto& entry) { return key == entry.first; });
    if (found == std::end(keys)) {
      refuse(lines.where(), excerpt(word), "a line of a PCD header, like FIELDS, SIZE or DATA");
    }
    split_blanks(line, line.size(), *found->second);
    if (found->second->empty()) refuse(lines.where(), excerpt(word) + " without a value", "one");
  }
  refuse(lines.where(), "the file ends in its header", "a line with DATA");
}

// The columns of the fields of a point, without padding.
std::vector<Column> columns_of(const Header& header, std::size_t points) {
  std::vector<Column> columns;
  for (const Field& field : header.fields) {
    if (field.padding) continue;
    if (field.color) {
      for (const char* name : {"red", "green", "blue"}) columns.push_back({name, 8, {}});
    } else if (field.count == 1) {
      columns.push_back({field.name, field.type.bits(), {}});
    } else {
      for (std::size_t i = 0; i < field.count; ++i) {
        columns.push_back({field.name + "_" + text_of(i), field.type.bits(), {}});
      }
    }
  }
  for (Column& column : columns) column.values.resize(points);
  return columns;
}

// Splits one column of packed colors, each the integer 256 (256 red + green) + blue, into three. The alpha of rgba, in
// the highest byte, is left out: many programs write 0 there for opaque colors. NaN stays NaN.
void unpack(Column* rgb) {
  for (std::size_t i = 0; i < rgb[0].values.size(); ++i) {
    const double packed = rgb[0].values[i];
    const auto bits = packed >= 0 && packed < 4294967296.0 ? static_cast<std::uint32_t>(packed) : 0;
    for (std::size_t channel = 0; channel < 3; ++channel) {
      rgb[channel].values[i] = std::isnan(packed) ? packed : double((bits >> (16 - 8 * channel)) & 255);
    }
  }
}

// The integer of a packed color that text gives as a number of the field's type. A color in a field of floats is the
// bits of a float; programs that print one as NaN lost it.
double packed_color(double number, const Scalar& type) {
  if (type.kind != ScalarKind::real) return number < 0 ? number + 4294967296.0 : number;
  if (!std::isfinite(number) || std::abs(number) > double{std::numeric_limits<float>::max()}) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const auto narrow = static_cast<float>(number);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof bits);
  return bits;
}

std::vector<Column> text_columns(const Header& header, Lines& lines) {
  std::size_t numbers = 0;
  for (const Field& field : header.fields) numbers += field.count;
  // At least a character and a separator per number; the end of the last line may be missing.
  const std::size_t most = (lines.rest().size() + 1) / (2 * numbers);
  std::vector<Column> columns = columns_of(header, 0);
  const auto expected = static_cast<std::size_t>(std::min<std::uint64_t>(most, header.points));
  for (Column& column : columns) column.values.reserve(expected);
  std::string_view line, word;
  for (std::uint64_t point = 0; point < header.points; ++point) {
    do {
      if (!lines.next(line)) refuse_cut(point, "points", header.points);
    } while (trimmed(line).empty() || trimmed(line)[0] == '#');
    std::string_view rest = line;
    std::size_t read = 0, column = 0;
    for (const Field& field : header.fields) {
      for (std::size_t i = 0; i < field.count; ++i, ++read) {
        if (!next_word(rest, word)) {
          refuse(lines.where(), text_of(read) + " numbers in " + excerpt(line), text_of(numbers) + ", one per field");
        }
        if (field.padding) continue;
        const std::optional<double> number = number_in(word);
        if (!number) refuse(lines.where(read), excerpt(word), "a number");
        columns[column].values.push_back(field.color ? packed_color(*number, field.type) : *number);
        column += field.color ? 3 : 1;
      }
    }
    if (next_word(rest, word)) {
      refuse(lines.where(read), "one number too many, " + excerpt(word), text_of(numbers) + " numbers, one per field");
    }
  }
  for (Column& column : columns) column.values.resize(columns[0].values.size());
  return columns;
}

// The bytes of `points` points are there. Records: the fields of a point follow each other; otherwise the points of a
// field do.
std::vector<Column> binary_columns(const Header& header, const char* bytes, bool records, bool padding) {
  const auto points = static_cast<std::size_t>(header.points);
  std::vector<Column> columns = columns_of(header, points);
  const std::size_t stride = header.record_bytes(padding);
  constexpr std::size_t block = 1024;  // stays in the cache while its columns are read one after the other
  const std::size_t step = records ? block : std::max<std::size_t>(1, points);
  for (std::size_t point = 0; point < points; point += step) {
    const std::size_t count = std::min(step, points - point);
    const char* at = bytes + point * stride;
    std::size_t column = 0;
    for (const Field& field : header.fields) {
      if (field.padding) {
        at += padding ? field.size() * (records ? 1 : points) : 0;
        continue;
      }
      for (std::size_t i = 0; i < field.count; ++i) {
        read_values(at + i * field.type.size, records ? stride : field.size(), count,
                    field.color ? kUnsigned32 : field.type, false, &columns[column].values[point]);
        column += field.color ? 3 : 1;
      }
      at += field.size() * (records ? 1 : points);
    }
  }
  return columns;
}

// LZF, the format of liblzf: a control byte c < 32 precedes c + 1 plain bytes; any other repeats bytes that were
// already decoded. Three bytes give at most 264.
std::string unpacked_lzf(std::string_view packed, std::size_t size) {
  const auto damaged = [](bool bad) {
    if (bad) refuse("the compressed data", "bytes that are not LZF", "as many points as declared; copy the file again");
  };
  constexpr std::size_t best_ratio = 88;
  damaged(size / best_ratio > packed.size());
  std::string plain(size, '\0');
  std::size_t at = 0, done = 0;
  const auto next = [&] {
    damaged(at == packed.size());
    return std::size_t{static_cast<unsigned char>(packed[at++])};
  };
  while (at < packed.size()) {
    const std::size_t control = next();
    if (control < 32) {
      const std::size_t length = control + 1;
      damaged(length > packed.size() - at || length > size - done);
      std::memcpy(&plain[done], packed.data() + at, length);
      at += length;
      done += length;
      continue;
    }
    std::size_t length = control >> 5;
    if (length == 7) length += next();
    length += 2;
    const std::size_t distance = ((control & 31) << 8) + next() + 1;
    damaged(distance > done || length > size - done);
    for (std::size_t i = 0; i < length; ++i, ++done) plain[done] = plain[done - distance];
  }
  damaged(done != size);
  return plain;
}

std::vector<Column> compressed_columns(const Header& header, std::string_view body, std::vector<std::string>& notes) {
  if (body.size() < 8) refuse_cut(body.size(), "bytes of compressed data", 8);
  const auto packed = static_cast<std::uint64_t>(value_of(body.data(), kUnsigned32));
  const auto plain = static_cast<std::uint64_t>(value_of(body.data() + 4, kUnsigned32));
  body.remove_prefix(8);
  if (packed > body.size()) refuse_cut(body.size(), "bytes of compressed data", packed);
  // The Point Cloud Library leaves padding out of compressed data.
  const auto size_of = [&header](bool padding) { return header.points * header.record_bytes(padding); };
  const std::uint64_t most_points = std::numeric_limits<std::uint64_t>::max() / header.record_bytes();
  if (header.points > most_points || (plain != size_of(false) && plain != size_of(true))) {
    refuse("the compressed data", text_of(plain) + " bytes",
           text_of(header.record_bytes(false)) + " times " + text_of(header.points) + " points; copy the file again");
  }
  const bool padding = plain != size_of(false);
  const auto end = static_cast<std::size_t>(packed);
  note_rest(body.substr(end), notes);
  const std::string bytes = unpacked_lzf(body.substr(0, end), static_cast<std::size_t>(plain));
  return binary_columns(header, bytes.data(), false, padding);
}

}  // namespace

Parsed parse_pcd(std::string_view bytes, const Source&) {
  Lines lines(bytes);
  const Header header = header_of(lines);
  Parsed parsed;
  if (header.points == 0) refuse("the header", "0 points", "at least 1; export the file again from its source");
  if (header.layout == Layout::text) {
    parsed.format = "PCD, ASCII";
    parsed.columns = text_columns(header, lines);
    note_rest(lines.rest(), parsed.notes);
  } else if (header.layout == Layout::binary) {
    parsed.format = "PCD, binary";
    const std::size_t most = lines.rest().size() / header.record_bytes();
    if (header.points > most) refuse_cut(most, "points", header.points);
    parsed.columns = binary_columns(header, lines.rest().data(), true, true);
    note_rest(lines.rest().substr(static_cast<std::size_t>(header.points) * header.record_bytes()), parsed.notes);
  } else {
    parsed.format = "PCD, compressed";
    parsed.columns = compressed_columns(header, lines.rest(), parsed.notes);
  }
  std::size_t column = 0;
  for (const Field& field : header.fields) {
    if (field.color) unpack(&parsed.columns[column]);
    column += field.padding ? 0 : field.color ? 3 : field.count;
  }
  if (header.layout == Layout::text) check_declared_bits(parsed.columns);
  return parsed;
}

}  // namespace bipointnet::clouds
