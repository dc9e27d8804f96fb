// LAS, all versions and point formats.
#include "cloud_checks.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

constexpr std::size_t kSizes[] = {20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67};

struct Las {
  int minor = 2;
  int format = 0;
  std::size_t extra = 0;      // bytes per point after those of the format
  std::int64_t declared = 2;  // points
  std::int64_t legacy = -1;   // points in the field of 32 bits, if not `declared`
  std::string between;        // the bytes between the header and the points
  double scale = 0.5;
  int compression = 0;
  std::int64_t vlr_count = 0;

  std::size_t header_size() const { return minor == 4 ? 375 : minor == 3 ? 235 : 227; }

  std::string bytes() const {
    const auto size = static_cast<std::size_t>(kSizes[format]) + extra;
    BinaryWriter file;
    file.text("LASF").text(std::string(20, '\0')).integer(1, 1).integer(1, minor).text(std::string(68, 'x'));
    file.integer(2, static_cast<std::int64_t>(header_size()));
    file.integer(4, static_cast<std::int64_t>(header_size() + between.size())).integer(4, vlr_count);
    file.integer(1, format | compression).integer(2, static_cast<std::int64_t>(size));
    file.integer(4, legacy >= 0 ? legacy : declared).text(std::string(20, '\0'));
    for (int axis = 0; axis < 3; ++axis) file.f64(scale);
    for (const double offset : {100.0, 200.0, -300.0}) file.f64(offset);
    file.text(std::string(48, '\0'));
    if (minor >= 3) file.text(std::string(8, '\0'));
    if (minor >= 4) file.text(std::string(12, '\0')).integer(8, declared).text(std::string(120, '\0'));
    CHECK_EQUAL(file.bytes().size(), header_size());
    file.text(between);
    for (int point = 0; point < 2; ++point) file.text(record(point, size));
    return file.bytes();
  }

  std::string record(int point, std::size_t size) const {
    BinaryWriter record;
    for (const int number : {2, -4, 6}) record.integer(4, number + 10 * point);
    record.integer(2, 60000 + point);
    if (format < 6) {
      record.integer(1, 2 | 5 << 3 | 1 << 7)
          .integer(1, (6 + point) | 7 << 5)
          .integer(1, -9)
          .integer(1, 77)
          .integer(2, 512);
      if (format == 1 || format >= 3) record.f64(1.5 + point);
    } else {
      record.integer(1, 9 | 12 << 4)
          .integer(1, 255)
          .integer(1, 200 + point)
          .integer(1, 77)
          .integer(2, -900)
          .integer(2, 512);
      record.f64(1.5 + point);
    }
    if (has_colors()) record.integer(2, 65535).integer(2, 0).integer(2, 13107);
    if (format == 8 || format == 10) record.integer(2, 4242);
    return record.bytes() + std::string(size - record.bytes().size(), '\x55');
  }

  bool has_colors() const {
    return format == 2 || format == 3 || format == 5 || format == 7 || format == 8 || format == 10;
  }
};

void every_version_and_format_comes_back() {
  for (int format = 0; format <= 10; ++format) {
    for (int minor = 0; minor <= 4; ++minor) {
      Las las;
      las.minor = minor;
      las.format = format;
      las.extra = static_cast<std::size_t>(minor);
      las.between = std::string(17, 'v');
      const Cloud cloud = CHECK_POINTS(las.bytes(), "a.las", {101, 198, -297, 106, 203, -292});
      CHECK((field(cloud, "intensity") == Numbers{60000, 60001}));
      CHECK((field(cloud, "classification") == (format < 6 ? Numbers{6, 7} : Numbers{200, 201})));
      CHECK((field(cloud, "return_number") == Numbers(2, format < 6 ? 2 : 9)));
      CHECK((field(cloud, "number_of_returns") == Numbers(2, format < 6 ? 5 : 12)));
      CHECK((field(cloud, format < 6 ? "scan_angle_rank" : "scan_angle") == Numbers(2, format < 6 ? -9 : -900)));
      CHECK((field(cloud, "user_data") == Numbers{77, 77} && field(cloud, "point_source_id") == Numbers{512, 512}));
      CHECK((field(cloud, "gps_time") == (format == 0 || format == 2 ? Numbers{} : Numbers{1.5, 2.5})));
      CHECK((field(cloud, "nir") == (format == 8 || format == 10 ? Numbers{4242, 4242} : Numbers{})));
      CHECK((cloud.colors == (las.has_colors() ? Floats{1, 0, 0.2f, 1, 0, 0.2f} : Floats{})));
      CHECK_EQUAL(has_note(cloud, "bytes per point have no description and were left out"), minor > 0);
    }
  }
}

std::string extra_field(int type, int options, const std::string& name) {
  BinaryWriter record;
  record.integer(2, 0).integer(1, type).integer(1, options).text(name + std::string(32 - name.size() + 76, '\0'));
  for (const double number : {0.25, 1.0, 1.0, 100.0, 0.0, 0.0}) record.f64(number);
  return record.text(std::string(32, '\0')).bytes();
}

std::string vlr(const std::string& user, int id, const std::string& content) {
  return BinaryWriter()
      .integer(2, 0)
      .text(user + std::string(16 - user.size(), '\0'))
      .integer(2, id)
      .integer(2, static_cast<std::int64_t>(content.size()))
      .text(std::string(32, '\0') + content)
      .bytes();
}

// Every byte of the extra bytes is 0x55, or 85.
void extra_bytes_are_fields() {
  Las las;
  las.extra = 9;
  las.vlr_count = 2;
  las.between = vlr("other", 4, "abc") + vlr("LASF_Spec", 4,
                                             extra_field(0, 1, "") + extra_field(3, 0, "label") +
                                                 extra_field(1, 24, "height") + extra_field(9, 0, "d"));
  const Cloud cloud = CHECK_POINTS(las.bytes(), "a.las", {101, 198, -297, 106, 203, -292});
  CHECK((field(cloud, "label") == Numbers{85 * 257, 85 * 257}));
  CHECK((field(cloud, "height") == Numbers{121.25, 121.25}));
  CHECK_EQUAL(field(cloud, "d").size(), std::size_t{2});
  CHECK(has_note(cloud, "1 bytes per point have no description"));
  las.extra = 5;  // does not hold d
  CHECK(field(read_bytes(las.bytes(), "a.las"), "d").empty());
  las.vlr_count = 4294967295;
  CHECK_ERROR(error_of(las.bytes(), "a.las"), "4294967295 records");
  check_damage(las.bytes(), "a.las", 2000);
}

void georeferenced_points_keep_their_shape() {
  Las las;
  las.scale = 1e-3;
  const Cloud cloud = read_bytes(las.bytes(), "a.las");
  CHECK(std::abs(cloud.points[3] - cloud.points[0] - 0.01f) < 1e-5f);
}

void hostile_headers_are_refused() {
  Las las;
  CHECK_REFUSED("LAS", "a.las", "begins with 'LAS', expected 'LASF'");
  CHECK_REFUSED(replaced(las.bytes(), "LASF", "LASG"), "a.las", "begins with 'LASG'");
  las.compression = 0x80;
  CHECK_REFUSED(las.bytes(), "a.las",
                "compressed points (LAZ), expected uncompressed points in a .las file; rename it to .laz");
  las = {};
  las.minor = 4;
  for (const std::int64_t count : {std::int64_t{3}, std::int64_t{1} << 32, INT64_MAX, std::int64_t{-1}}) {
    las.declared = count;
    las.legacy = 0;
    CHECK_REFUSED(las.bytes(), "a.las", "2 points, expected ");
  }
  las = {};
  las.declared = 4294967295;
  CHECK_REFUSED(las.bytes(), "a.las", "2 points, expected 4294967295 as in its header; the file is cut short");
  las.declared = 0;
  CHECK_REFUSED(las.bytes(), "a.las", "0 points");
  las = {};
  for (const double scale : {0.0, std::nan(""), HUGE_VAL}) {
    las.scale = scale;
    CHECK_REFUSED(las.bytes(), "a.las", "a scale of 0, or a scale or offset that is not finite, expected finite numbers");
  }
  const auto changed = [](std::size_t at, int value) {
    std::string bytes = Las().bytes();
    bytes[at] = static_cast<char>(value);
    return bytes;
  };
  CHECK_REFUSED(changed(24, 2), "a.las", "LAS 2.2, expected version 1.0 to 1.4");
  CHECK_REFUSED(changed(25, 5), "a.las", "LAS 1.5");
  CHECK_REFUSED(changed(104, 11), "a.las", "the point format 11, expected 0 to 10");
  CHECK_REFUSED(changed(105, 19), "a.las", "19 bytes per point, expected at least 20");
  CHECK_REFUSED(changed(96, 0), "a.las", "points from byte 0 on");
  CHECK_REFUSED(changed(99, 255), "a.las", "a place after the header");
}

}  // namespace

int main() {
  every_version_and_format_comes_back();
  extra_bytes_are_fields();
  georeferenced_points_keep_their_shape();
  hostile_headers_are_refused();
  Las las;
  las.format = 7;
  las.minor = 4;
  check_cuts(las.bytes(), "a.las");
  check_damage(las.bytes(), "a.las", 3000);
  check_damage(Las().bytes(), "a.las", 3000);
  return check_report();
}
