// LAS 1.0 to 1.4, point formats 0 to 10, uncompressed (ASPRS, "LAS specification 1.4", R15, 2019). Compressed files
// (LAZ) are read in Python.
#include <cmath>
#include <utility>

#include "clouds/formats.h"
#include "clouds/lines.h"
#include "clouds/scalars.h"

namespace bipointnet::clouds {
namespace {

constexpr Scalar kU8 = {1, ScalarKind::unsigned_integer};
constexpr Scalar kU16 = {2, ScalarKind::unsigned_integer};
constexpr Scalar kI8 = {1, ScalarKind::signed_integer};
constexpr Scalar kI16 = {2, ScalarKind::signed_integer};
constexpr Scalar kI32 = {4, ScalarKind::signed_integer};

// Positions in the header.
constexpr std::size_t kVersion = 24, kHeaderSize = 94, kPointsBegin = 96, kRecords = 100, kPointFormat = 104,
                      kRecordSize = 105, kCount = 107, kScale = 131, kOffset = 155, kShortHeader = 227,
                      kExtendedRecords = 243, kLongCount = 247, kLongHeader = 375;
// Extra bytes of points are described by a variable length record (VLR) with 192 bytes per field.
constexpr std::size_t kVlrHeader = 54, kVlrId = 18, kVlrSize = 20, kExtraSize = 192, kExtraType = 2, kExtraOptions = 3,
                      kExtraName = 4, kExtraScale = 112, kExtraOffset = 136;
constexpr std::uint64_t kExtraId = 4;
constexpr unsigned kHasScale = 8, kHasOffset = 16;

constexpr unsigned kCompressed = 0xC0;  // bits of the point format that LASzip sets

// Bytes per point of the formats 0 to 10.
constexpr std::size_t kSizes[] = {20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67};

struct Field {
  std::string name;
  std::size_t at;
  Scalar type;
  unsigned first_bit = 0, bit_count = 0;  // of a field that shares its byte
  double scale = 1, offset = 0;
};

std::vector<Field> fields_of(unsigned format) {
  const bool extended = format >= 6;
  std::vector<Field> fields = {{"x", 0, kI32}, {"y", 4, kI32}, {"z", 8, kI32}, {"intensity", 12, kU16}};
  if (extended) {
    fields.insert(fields.end(), {{"return_number", 14, kU8, 0, 4},
                                 {"number_of_returns", 14, kU8, 4, 4},
                                 {"classification", 16, kU8},
                                 {"user_data", 17, kU8},
                                 {"scan_angle", 18, kI16},
                                 {"point_source_id", 20, kU16},
                                 {"gps_time", 22, kFloat64}});
  } else {
    fields.insert(fields.end(), {{"return_number", 14, kU8, 0, 3},
                                 {"number_of_returns", 14, kU8, 3, 3},
                                 {"classification", 15, kU8, 0, 5},
                                 {"scan_angle_rank", 16, kI8},
                                 {"user_data", 17, kU8},
                                 {"point_source_id", 18, kU16}});
    if (format == 1 || format >= 3) fields.push_back({"gps_time", 20, kFloat64});
  }
  std::size_t colors = 0;
  if (format == 2) colors = 20;
  if (format == 3 || format == 5) colors = 28;
  if (format == 7 || format == 8 || format == 10) colors = 30;
  if (colors > 0) {
    fields.insert(fields.end(), {{"red", colors, kU16}, {"green", colors + 2, kU16}, {"blue", colors + 4, kU16}});
  }
  if (format == 8 || format == 10) fields.push_back({"nir", 36, kU16});
  return fields;
}

class Header {
 public:
  explicit Header(std::string_view bytes) : bytes_(bytes) {
    if (bytes.substr(0, 4) != "LASF") {
      refuse("", "begins with " + excerpt(bytes.substr(0, 4)), "'LASF'; check that the suffix is right");
    }
    need(kShortHeader);
    major = integer(kVersion, 1);
    minor = integer(kVersion + 1, 1);
    if (major != 1 || minor > 4) refuse("", "LAS " + text_of(major) + "." + text_of(minor), "version 1.0 to 1.4");
    const std::uint64_t format_byte = integer(kPointFormat, 1);
    if (format_byte & kCompressed) {
      refuse("", "compressed points (LAZ)", "uncompressed points in a .las file; rename it to .laz");
    }
    format = static_cast<unsigned>(format_byte);
    if (format > 10) refuse("", "the point format " + text_of(format), "0 to 10");
    record_size = static_cast<std::size_t>(integer(kRecordSize, 2));
    if (record_size < kSizes[format]) {
      refuse("", text_of(record_size) + " bytes per point",
             "at least " + text_of(kSizes[format]) + " for the point format " + text_of(format));
    }
    count = integer(kCount, 4);
    if (minor >= 4) {
      need(kLongHeader);
      const std::uint64_t long_count = integer(kLongCount, 8);
      if (long_count > 0) count = long_count;
    }
    const std::uint64_t begin = integer(kPointsBegin, 4);
    if (begin < integer(kHeaderSize, 2) || begin < kShortHeader || begin > bytes.size()) {
      refuse("", "points from byte " + text_of(begin) + " on in " + text_of(bytes.size()) + " bytes",
             "a place after the header; copy the file again from its source");
    }
    // Not read, but a header with such a count is damaged: a record has 54 bytes or more, an extended one 60.
    const std::uint64_t records = integer(kRecords, 4), extended = minor >= 4 ? integer(kExtendedRecords, 4) : 0;
    if (54 * records > begin || 60 * extended > bytes.size()) {
      refuse("", text_of(records) + " records and " + text_of(extended) + " extended ones in its header",
             "as many as " + text_of(bytes.size()) + " bytes can hold; copy the file again from its source");
    }
    points = bytes.substr(static_cast<std::size_t>(begin));
    if (count > points.size() / record_size) {
      refuse("", text_of(points.size() / record_size) + " points",
             text_of(count) + " as in its header; the file is cut short, copy it again from its source");
    }
    for (std::size_t axis = 0; axis < 3; ++axis) {
      scale[axis] = value_of(bytes.data() + kScale + 8 * axis, kFloat64);
      offset[axis] = value_of(bytes.data() + kOffset + 8 * axis, kFloat64);
      if (!std::isfinite(scale[axis]) || scale[axis] == 0 || !std::isfinite(offset[axis])) {
        refuse("", "a scale of 0, or a scale or offset that is not finite",
               "finite numbers in its header, and no scale of 0; copy the file again");
      }
    }
  }

  // The fields in the extra bytes; ends at the first that is not described or has no number.
  std::vector<Field> extra_fields() const {
    constexpr Scalar types[] = {kU8,
                                kI8,
                                kU16,
                                kI16,
                                {4, ScalarKind::unsigned_integer},
                                kI32,
                                {8, ScalarKind::unsigned_integer},
                                {8, ScalarKind::signed_integer},
                                kFloat32,
                                kFloat64};
    std::vector<Field> fields;
    const std::string_view records = extra_records();
    std::size_t at = kSizes[format];
    for (std::size_t begin = 0; begin + kExtraSize <= records.size() && fields.size() < kMaxColumns;
         begin += kExtraSize) {
      const std::string_view record = records.substr(begin, kExtraSize);
      const auto type = static_cast<unsigned char>(record[kExtraType]);
      const auto options = static_cast<unsigned char>(record[kExtraOptions]);
      if (type == 0) {  // bytes without a type; their number is in the options
        at += options;
        continue;
      }
      if (type > sizeof types / sizeof *types || at + types[type - 1].size > record_size) break;
      const std::string_view name = record.substr(kExtraName, 32);
      Field field{std::string(name.substr(0, name.find('\0'))), at, types[type - 1]};
      if (options & kHasScale) field.scale = value_of(record.data() + kExtraScale, kFloat64);
      if (options & kHasOffset) field.offset = value_of(record.data() + kExtraOffset, kFloat64);
      at += field.type.size;
      fields.push_back(std::move(field));
    }
    return fields;
  }

  std::uint64_t major = 0, minor = 0, count = 0;
  unsigned format = 0;
  std::size_t record_size = 0;
  std::string_view points;
  double scale[3] = {}, offset[3] = {};

 private:
  std::string_view extra_records() const {
    std::size_t at = static_cast<std::size_t>(integer(kHeaderSize, 2));
    for (std::uint64_t left = integer(kRecords, 4); left > 0 && at + kVlrHeader <= bytes_.size(); --left) {
      const auto size = static_cast<std::size_t>(integer(at + kVlrSize, 2));
      if (bytes_.substr(at + 2, 9) == "LASF_Spec" && integer(at + kVlrId, 2) == kExtraId) {
        return bytes_.substr(at + kVlrHeader, size);
      }
      at += kVlrHeader + size;
    }
    return {};
  }

  void need(std::size_t size) const {
    if (bytes_.size() < size) {
      refuse("", text_of(bytes_.size()) + " bytes",
             "a header of " + text_of(size) + "; the file is cut short, copy it again from its source");
    }
  }

  std::uint64_t integer(std::size_t at, std::size_t size) const {
    std::uint64_t number = 0;
    for (std::size_t i = size; i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes_[at + i]);
    return number;
  }

  std::string_view bytes_;
};

}  // namespace

Parsed parse_las(std::string_view bytes, const Source&) {
  const Header header(bytes);
  Parsed parsed;
  parsed.format =
      "LAS " + text_of(header.major) + "." + text_of(header.minor) + ", point format " + text_of(header.format);
  std::vector<Field> fields = fields_of(header.format);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    fields[axis].scale = header.scale[axis];
    fields[axis].offset = header.offset[axis];
  }
  std::size_t described = kSizes[header.format];
  for (Field& field : header.extra_fields()) {
    described = field.at + field.type.size;
    fields.push_back(std::move(field));
  }
  if (header.record_size > described) {
    parsed.notes.push_back(text_of(header.record_size - described) +
                           " bytes per point have no description and were left out");
  }
  const auto count = static_cast<std::size_t>(header.count);
  for (Field& field : fields) {
    const bool is_scaled = field.scale != 1 || field.offset != 0;
    const unsigned bits = field.bit_count > 0 || is_scaled ? 0 : field.type.bits();
    Column column{std::move(field.name), bits, std::vector<double>(count)};
    read_values(header.points.data() + field.at, header.record_size, count, field.type, false, column.values.data());
    const unsigned mask = (1u << field.bit_count) - 1;
    for (double& value : column.values) {
      if (field.bit_count > 0) value = static_cast<double>(static_cast<unsigned>(value) >> field.first_bit & mask);
      if (is_scaled) value = value * field.scale + field.offset;
    }
    parsed.columns.push_back(std::move(column));
  }
  return parsed;
}

}  // namespace bipointnet::clouds
