// PCD files of every version and layout give the points that were written, and no declared size is trusted.
#include <cstring>
#include <map>

#include "cloud_checks.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

const Floats kPoints = {0, 1.5, -2, 0.25, 3, 30000};
const std::string kText = "0 1.5 -2\n0.25 3 3e4\n";

std::string header(const std::string& lines, const std::string& data) {
  return "# .PCD v.7 - Point Cloud Data file format\nVERSION .7\n" + lines + "VIEWPOINT 0 0 0 1 0 0 0\nDATA " + data +
         "\n";
}

// `points` points with x, y and z as float, and perhaps more fields.
std::string fields(const std::string& points, const std::string& names = "", const std::string& sizes = "",
                   const std::string& types = "", const std::string& counts = "") {
  return "FIELDS x y z" + names + "\nSIZE 4 4 4" + sizes + "\nTYPE F F F" + types + "\nCOUNT 1 1 1" + counts +
         "\nWIDTH " + points + "\nHEIGHT 1\nPOINTS " + points + "\n";
}

// A greedy encoder of LZF: repeats of 3 to 264 bytes within the last 8192.
std::string lzf(const std::string& plain) {
  std::string packed, literal;
  std::map<std::string, std::size_t> seen;
  const auto flush = [&] {
    for (std::size_t i = 0; i < literal.size(); i += 32) {
      const std::string run = literal.substr(i, 32);
      packed += static_cast<char>(run.size() - 1) + run;
    }
    literal.clear();
  };
  for (std::size_t at = 0; at < plain.size();) {
    const auto match = seen.find(plain.substr(at, 3));
    const std::size_t from = match == seen.end() ? 0 : match->second;
    std::size_t length = 0;
    if (match != seen.end() && at - from <= 8192) {
      while (length < 264 && at + length < plain.size() && plain[from + length] == plain[at + length]) ++length;
    }
    seen[plain.substr(at, 3)] = at;
    if (length < 3) {
      literal += plain[at++];
      continue;
    }
    flush();
    const std::size_t distance = at - from - 1, more = length - 2;
    packed += static_cast<char>((std::min<std::size_t>(more, 7) << 5) + (distance >> 8));
    if (more >= 7) packed += static_cast<char>(more - 7);
    packed += static_cast<char>(distance & 255);
    at += length;
  }
  flush();
  return packed;
}

std::string compressed(const std::string& plain) {
  const std::string packed = lzf(plain);
  return BinaryWriter()
      .integer(4, static_cast<std::int64_t>(packed.size()))
      .integer(4, static_cast<std::int64_t>(plain.size()))
      .text(packed)
      .bytes();
}

void every_version_and_spelling_gives_the_same_points() {
  const std::string body = float32_bytes(kPoints);
  const std::string columns = float32_bytes({0, 0.25, 1.5, 3, -2, 30000});
  for (const std::string& file : Names{
           header(fields("2"), "ascii") + kText,
           header(fields("2"), "binary") + body,
           header(fields("2"), "binary_compressed") + compressed(columns),
           header("FIELDS X Y Z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 2\nHEIGHT 1\nPOINTS 2\n", "ASCII") + kText,
           "# .PCD v.5 - Point Cloud Data file format\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 2\nHEIGHT 1\n"
           "POINTS 2\nDATA ascii\n" +
               kText,
           "COLUMNS x y z\nPOINTS 2\nDATA ascii\n" + kText,
           "VERSION 0.6\nfields x y z\nsize 4 4 4\ntype f f f\ncount 1 1 1\nwidth 1\nheight 2\ndata binary\n" + body,
           "VERSION .7\r\nFIELDS x\ty  z \r\nWIDTH 2\r\nDATA binary\r\n" + body,
           "FIELDS x y z\n\n# a comment\nWIDTH 2\nDATA ascii\n\n  0\t1.5   -2\t\r\n# and one here\n0.25\t\t3 3e4",
           "\xEF\xBB\xBFVERSION .7\nFIELDS x y z\nWIDTH 2\nDATA ascii\n" + kText,
           header(fields("2"), "binary") + body + std::string(100, '\0'),
       }) {
    const Cloud cloud = CHECK_POINTS(file, "a.pcd", {0, 1.5, -2, 0.25, 3, 30000});
    CHECK(cloud.notes.empty() && cloud.dropped == 0 && cloud.fields.empty());
  }
  const Cloud longer = read_bytes(header(fields("2"), "ascii") + kText + "9 9 9\n", "a.pcd");
  CHECK(longer.points == kPoints && has_note(longer, "6 bytes more than it declares"));
}

void every_type_comes_back() {
  for (const std::size_t size : {1u, 2u, 4u, 8u}) {
    for (const char* type : {"I", "U"}) {
      const bool sign = *type == 'I';
      const std::int64_t low = sign ? -(std::int64_t{1} << (8 * size - 2)) * 2 : 0;
      const std::int64_t high = size == 8 ? std::int64_t{1} << 62 : (std::int64_t{1} << (8 * size - sign)) - 1;
      const std::string names = fields("2", " a _ b", " " + std::to_string(size) + " 3 8",
                                       std::string(" ") + type + " U F", " 1 1 1");
      const std::string padded = fields("2", " a _ b", " " + std::to_string(size) + " 1 8",
                                        std::string(" ") + type + " U F", " 1 3 1");
      BinaryWriter records, columns;
      for (int i = 0; i < 2; ++i) {
        for (int axis = 0; axis < 3; ++axis) records.f32(kPoints[std::size_t(3 * i + axis)]);
        records.integer(size, i ? high : low).text("???").f64(0.1 * (i + 1));
      }
      columns.text(float32_bytes({0, 0.25, 1.5, 3, -2, 30000})).integer(size, low).integer(size, high);
      const std::string ends = columns.bytes();
      const auto check_file = [&](const std::string& file) {
        const Cloud cloud = CHECK_POINTS(file, "a.pcd", {0, 1.5, -2, 0.25, 3, 30000});
        CHECK((cloud.columns == Names{"x", "y", "z", "a", "b"}));
        CHECK((field(cloud, "a") == Numbers{double(low), double(high)} && field(cloud, "b") == Numbers{0.1, 0.2}));
        CHECK_EQUAL(cloud.fields.at(0).bits, sign ? 0u : unsigned(8 * size));
      };
      check_file(header(padded, "binary") + records.bytes());
      const std::string b = BinaryWriter().f64(0.1).f64(0.2).bytes();
      check_file(header(padded, "binary_compressed") + compressed(ends + b));             // as PCL writes it
      check_file(header(padded, "binary_compressed") + compressed(ends + "paddng" + b));  // as others do
      check_file(header(padded, "ascii") + "0 1.5 -2 " + std::to_string(low) + " x x x 0.1\n0.25 3 3e4 " +
                 std::to_string(high) + " 1 2 3 0.2\n");
      CHECK_REFUSED(header(names, "binary") + records.bytes(), "a.pcd", "the field '_': TYPE 'U' of SIZE '3'");
    }
  }
}

std::int64_t packed(int red, int green, int blue, int alpha = 0) {
  return (std::int64_t{alpha} << 24) + (red << 16) + (green << 8) + blue;
}

float as_float(std::int64_t bits) {
  const auto word = static_cast<std::uint32_t>(bits);
  float number = 0;
  std::memcpy(&number, &word, sizeof number);
  return number;
}

void packed_colors_become_red_green_and_blue() {
  const std::int64_t first = packed(255, 0, 51), second = packed(0, 102, 255, 255);
  const Floats colors = {1, 0, 0.2f, 0, 0.4f, 1};
  const std::string body = BinaryWriter()
                               .text(float32_bytes({0, 1.5, -2}))
                               .integer(4, first)
                               .text(float32_bytes({0.25, 3, 30000}))
                               .integer(4, second)
                               .bytes();
  for (const char* name : {" rgb", " RGB", " rgba"}) {
    for (const char* type : {" F", " U", " I"}) {
      const Cloud cloud = CHECK_POINTS(header(fields("2", name, " 4", type, " 1"), "binary") + body, "a.pcd",
                                       {0, 1.5, -2, 0.25, 3, 30000});
      CHECK(cloud.colors == colors);
      CHECK((cloud.columns == Names{"x", "y", "z", "red", "green", "blue"}));
    }
  }
  const auto text_of_colors = [](const std::string& type, const std::string& one, const std::string& two) {
    const std::string text = "0 1.5 -2 " + one + "\n0.25 3 3e4 " + two + "\n";
    return read_bytes(header(fields("2", " rgb", " 4", " " + type, " 1"), "ascii") + text, "a.pcd");
  };
  CHECK(text_of_colors("U", std::to_string(first), std::to_string(second)).colors == colors);
  CHECK(text_of_colors("I", std::to_string(first), std::to_string(second - 4294967296)).colors == colors);
  // Floats have the bits of a color: here of an alpha of 0 and of 74, as in PCL's own examples.
  char small[40];
  std::snprintf(small, sizeof small, "%.9g", double{as_float(first)});
  CHECK((text_of_colors("F", small, "4.2108e+06").colors == Floats{1, 0, 0.2f, 128 / 255.f, 128 / 255.f, 224 / 255.f}));
  const Cloud lost = text_of_colors("F", small, "nan");  // an opaque color, printed as a number
  CHECK(lost.colors.empty() && has_note(lost, "not colors"));
  const std::string two = fields("1", " rgb rgba", " 4 4", " F U", " 1 1");
  const Cloud both = read_bytes(header(two, "ascii") + "1 2 3 0 255\n", "a.pcd");
  CHECK(both.colors.size() == 3 && field(both, "rgba") == Numbers{255});
}

void fields_of_many_numbers_have_a_column_each() {
  const std::string lines = fields("2", " fpfh label", " 4 4", " F U", " 3 1");
  const std::string text = "0 1.5 -2 1 2 3 7\n0.25 3 3e4 4 5 6 8\n";
  const std::string floats = float32_bytes({0, 0.25, 1.5, 3, -2, 30000, 1, 2, 3, 4, 5, 6});
  const std::string columns = BinaryWriter().text(floats).integer(4, 7).integer(4, 8).bytes();
  for (const std::string& file :
       {header(lines, "ascii") + text, header(lines, "binary_compressed") + compressed(columns)}) {
    const Cloud cloud = CHECK_POINTS(file, "a.pcd", {0, 1.5, -2, 0.25, 3, 30000});
    CHECK((cloud.columns == Names{"x", "y", "z", "fpfh_0", "fpfh_1", "fpfh_2", "label"}));
    CHECK((field(cloud, "fpfh_1") == Numbers{2, 5} && field(cloud, "label") == Numbers{7, 8}));
  }
}

void points_without_a_return_are_dropped_in_order() {
  const std::string size = "FIELDS x y z\nWIDTH 2\nHEIGHT 2\nPOINTS 4\n";
  const float none = std::nanf("");
  const Floats four = {none, 0, 0, 0, 1.5, -2, 0, none, 0, 0.25, 3, 30000};
  const std::string text = "nan nan nan\n0 1.5 -2\n-nan(ind) 1.#QNAN -1.#INF0\n0.25 3 3e4\n";
  for (const std::string& file : {header(size, "ascii") + text, header(size, "binary") + float32_bytes(four)}) {
    const Cloud cloud = CHECK_POINTS(file, "a.pcd", {0, 1.5, -2, 0.25, 3, 30000});
    CHECK((cloud.dropped == 2 && cloud.kept == std::vector<std::size_t>{1, 3}));
  }
}

void hostile_headers_are_refused() {
  const std::string body = float32_bytes(kPoints);
  const auto refused = [](const std::string& bytes) { return error_of(bytes, "a.pcd"); };
  CHECK_ERROR(refused("# nothing\n"), "the file ends in its header, expected a line with DATA");
  CHECK_ERROR(refused("\x7f" "ELF"), "line 1: '?ELF', expected a line of a PCD header");
  CHECK_ERROR(refused(header("WIDTH 2\n", "binary") + body), "no FIELDS, expected FIELDS x y z");
  CHECK_ERROR(refused(header("FIELDS x y z\n", "binary") + body), "neither WIDTH nor POINTS");
  CHECK_ERROR(refused(header("FIELDS x y z\nWIDTH\n", "binary")), "line 4: 'WIDTH' without a value");
  CHECK_ERROR(refused(header("FIELDS x y z\nWIDTH 2 2\n", "binary")), "WIDTH: '2', expected one whole number");
  CHECK_ERROR(refused(header("FIELDS x y z\nWIDTH -2\n", "binary")), "WIDTH: '-2', expected one whole number");
  CHECK_ERROR(refused(header(fields("2"), "zip")), "DATA 'zip', expected ascii, binary or binary_compressed");
  CHECK_ERROR(refused(header("FIELDS x y z\nSIZE 4 4\nWIDTH 2\n", "binary") + body), "SIZE: 2 entries, expected 3");
  CHECK_ERROR(refused(header("FIELDS x y\nWIDTH 3\n", "binary") + body), "the columns 'x', 'y', expected x, y and z");
  CHECK_ERROR(refused(header("FIELDS x y z\nTYPE F F C\nWIDTH 2\n", "binary") + body), "TYPE 'C' of SIZE '4'");
  CHECK_ERROR(refused(header("FIELDS x y z\nSIZE 4 4 2\nWIDTH 2\n", "binary") + body), "TYPE 'F' of SIZE '2'");
  CHECK_ERROR(refused(header("FIELDS x y z\nWIDTH 2\nHEIGHT 3\nPOINTS 2\n", "binary") + body),
              "WIDTH 2 times HEIGHT 3, expected the 2 of POINTS");
  CHECK_ERROR(refused(header(fields("0"), "binary")), "0 points, expected at least 1");
  for (const char* count : {"0", "-1", "65534", "2147483648", "18446744073709551615", "99999999999999999999"}) {
    const std::string lines = fields("1", " a", " 1", " U", std::string(" ") + count);
    for (const char* data : {"ascii", "binary", "binary_compressed"}) {
      CHECK_ERROR(refused(header(lines, data) + body), "the field 'a': COUNT '");
    }
  }
  std::string many = "FIELDS x y z";
  for (int i = 0; i < 65534; ++i) many += " a";
  CHECK_ERROR(refused(many + "\nWIDTH 1\nDATA binary\n" + body), "the field 'a': COUNT '1', expected 1 or more, and");
  for (const char* points : {"3", "4294967298", "1537228672809129303", "6148914691236517206", "18446744073709551615"}) {
    const std::string cut = std::string("the file is cut short after 2 points, expected ") + points;
    CHECK_ERROR(refused(header(fields(points), "binary") + body), cut);
    CHECK_ERROR(refused(header(fields(points), "ascii") + kText), cut);
    CHECK_ERROR(refused(header(fields(points), "binary_compressed") + compressed(body)), "24 bytes, expected 12 times");
  }
  CHECK_ERROR(refused(header("FIELDS x y z\nWIDTH 4294967296\nHEIGHT 4294967297\n", "binary") + body), "2^64 points");
  CHECK_ERROR(refused(header(fields("2"), "ascii") + "0 0 0\n1 2\n"), "line 13: 2 numbers in '1 2', expected 3");
  CHECK_ERROR(refused(header(fields("2"), "ascii") + "0 0 0\n1 2 3 4\n"),
              "line 13, column 4: one number too many, '4', expected 3 numbers");
  CHECK_ERROR(refused(header(fields("2"), "ascii") + "0 0 0\n1 2 z\n"), "line 13, column 3: 'z', expected a number");
}

void hostile_compressed_data_is_refused() {
  const auto file = [](std::int64_t packed_size, std::int64_t plain_size, const std::string& data,
                       const char* points = "2") {
    return header(fields(points), "binary_compressed") +
           BinaryWriter().integer(4, packed_size).integer(4, plain_size).text(data).bytes();
  };
  const std::string packed = lzf(float32_bytes(kPoints));
  const auto size = static_cast<std::int64_t>(packed.size());
  CHECK_EQUAL(error_of(file(size, 24, packed), "a.pcd"), "");
  CHECK_REFUSED(file(size + 1, 24, packed), "a.pcd", " bytes of compressed data, expected ");
  CHECK_REFUSED(file(4294967295, 24, packed), "a.pcd", "expected 4294967295; copy");
  CHECK_REFUSED(file(size, 23, packed), "a.pcd", "23 bytes, expected 12 times 2 points");
  CHECK_REFUSED(file(size - 1, 24, packed), "a.pcd", "bytes that are not LZF");
  CHECK_REFUSED(file(3, 24, std::string("\x20\x00\x00", 3)), "a.pcd", "not LZF");         // repeats what is not there
  CHECK_REFUSED(file(4, 24, std::string("\x00\x01\xE0\x00", 4)), "a.pcd", "not LZF");     // ends in a repeat
  CHECK_REFUSED(file(2, 24, std::string("\x1F\x00", 2)), "a.pcd", "not LZF");             // ends in plain bytes
  CHECK_REFUSED(file(5, 24, std::string("\x00\x00\xE0\xFF\x00", 5)), "a.pcd", "not LZF"); // more than declared
  // A declared size beyond what LZF can give takes no memory.
  CHECK_REFUSED(file(5, 4294967292, std::string("\x00\x00\xE0\xFF\x00", 5), "357913941"), "a.pcd", "not LZF");
}

void compression_of_every_kind_comes_back() {
  std::mt19937 random(3);
  for (const std::uint32_t values : {1u, 2u, 5u, 1000000u}) {
    for (const std::size_t count : {1u, 3u, 100u, 3000u}) {
      Floats columns(3 * count), points(3 * count);
      for (std::size_t i = 0; i < columns.size(); ++i) {
        columns[i] = static_cast<float>(random() % values);
        points[3 * (i % count) + i / count] = columns[i];
      }
      const std::string lines = fields(std::to_string(count));
      const std::string file = header(lines, "binary_compressed") + compressed(float32_bytes(columns));
      CHECK(read_bytes(file, "a.pcd").points == points);
    }
  }
}

void damaged_files_give_a_cloud_or_a_sentence() {
  const std::string lines = fields("2", " rgb fpfh _ label", " 4 4 1 2", " F F U U", " 1 2 3 1");
  const std::string text = "0 1.5 -2 255 1 2 0 0 0 7\n0.25 3 3e4 511 3 4 0 0 0 10\n";
  const std::string record = float32_bytes({0, 1.5, -2, 0, 1, 2}) + "abcde";
  const std::string plain = float32_bytes({0, 0, 1.5, 1.5, -2, -2, 0, 0, 1, 2, 3, 4}) + "abcd";
  check_cuts(header(lines, "ascii") + text, "a.pcd", 2);
  check_cuts(header(lines, "binary") + record + record, "a.pcd");
  check_cuts(header(lines, "binary_compressed") + compressed(plain), "a.pcd");
  check_damage(header(lines, "ascii") + text, "a.pcd");
  check_damage(header(lines, "binary") + record + record, "a.pcd");
  check_damage(header(lines, "binary_compressed") + compressed(plain), "a.pcd");
}

}  // namespace

int main() {
  every_version_and_spelling_gives_the_same_points();
  every_type_comes_back();
  packed_colors_become_red_green_and_blue();
  fields_of_many_numbers_have_a_column_each();
  points_without_a_return_are_dropped_in_order();
  hostile_headers_are_refused();
  hostile_compressed_data_is_refused();
  compression_of_every_kind_comes_back();
  damaged_files_give_a_cloud_or_a_sentence();
  return check_report();
}
