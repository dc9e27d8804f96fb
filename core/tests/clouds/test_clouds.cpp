// Any bytes give the cloud that was written or a CloudError that names what was found.
// Over 400 lines: every format is written by the same helpers and damaged in the same ways.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <random>

#include "check.h"
#include "clouds.h"
#include "packed_writer.h"

using namespace bipointnet;

namespace {

using Parse = std::vector<double> (*)(std::string_view, std::size_t);
using Numbers = std::vector<double>;

// Copies to memory of the exact size, so that a sanitizer detects a read after the end.
Numbers parsed(Parse parse, const std::string& text, std::size_t channels = 3) {
  const std::vector<char> exact(text.begin(), text.end());
  return parse(std::string_view(exact.data(), exact.size()), channels);
}

// The message of a reader, or "" if it succeeds.
std::string error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const CloudError& error) {
    return *error.what() ? error.what() : "an empty message";
  }
  return "";
}

std::string error_of(Parse parse, const std::string& text, std::size_t channels = 3) {
  return error_of([&] { parsed(parse, text, channels); });
}

// The message contains `part` and is one sentence with what was found and what was expected.
void check_error(const std::string& error, const std::string& part, int line) {
  const bool sentence =
      error.size() < 250 && error.find('\n') == std::string::npos && error.find(", expected ") != std::string::npos;
  if (check(sentence && error.find(part) != std::string::npos, __FILE__, line, "the error")) return;
  std::cerr << "  found    " << error << "\n  expected " << part << "\n";
}

#define CHECK_ERROR(error, part) check_error(error, part, __LINE__)

const Numbers kPoints = {0, 1.5, -2, 1e-3, 0.25, 3e4};

void all_ways_to_write_a_text_give_the_same_points() {
  for (const char* text : {
           "0 1.5 -2\n1e-3 0.25 3e4\n",
           "0 1.5 -2\n1e-3 0.25 3e4",
           "0\t1.5\t-2\r\n1E-03\t.25\t+30000.\r\n",
           "0 1.5 -2\r1e-3 0.25 3e4\r",
           "0,1.5,-2\n0.001,0.25,3e+4\n",
           "0, 1.5, -2\n 0.001 ,\t0.25 , 3e4 ,\n",
           "0;1.5;-2\n0.001;0.25;3e4;\n",
           "2\n0 1.5 -2\n1e-3 0.25 3e4\n",
           "  2  \r\n0 1.5 -2 17\r\n1e-3 0.25 3e4 12 0.5 chair\r\n",
           "1\n0 1.5 -2\n1e-3 0.25 3e4\n",
           "# a comment, 1 2 3\n\n// another\n0 1.5 -2 # here\n   \n1e-3 0.25 3e4// there\n#",
           "\xEF\xBB\xBF"
           "0 1.5 -2\n1e-3 0.25 3e4\n",
           "x y z\n0 1.5 -2\n1e-3 0.25 3e4\n",
           "2\nx y z\n0 1.5 -2\n1e-3 0.25 3e4\n",
           "\"Z\",\"label\",\"X\",\"Y\"\n-2,chair,\"0\",1.5\n3e4,,0.001,0.25\n",
           "lat lon height\n0 1.5 -2\n1e-3 0.25 3e4\n",
           "0 1.5 -2 nan inf\n1e-3 0.25 3e4 what?\n",
       }) {
    if (!CHECK(parsed(parse_text, text) == kPoints)) std::cerr << "  for " << text << "\n";
  }
}

void more_channels_are_the_next_columns() {
  const Numbers expected = {1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(parsed(parse_text, "1 2 3 4\n5 6 7 8\n", 4) == expected);
  CHECK(parsed(parse_text, "1 2 3 4 9\n5 6 7 8 9\n", 4) == expected);
  CHECK(parsed(parse_text, "gray;z;x;more;y\n4;3;1;9;2\n8;7;5;9;6\n", 4) == expected);
  CHECK_ERROR(error_of(parse_text, "1 2 3 4\n5 6 7\n", 4), "line 2: 3 columns in '5 6 7', expected at least 4");
}

void an_error_names_the_line() {
  CHECK_ERROR(error_of(parse_text, ""), "0 points, expected at least 1");
  CHECK_ERROR(error_of(parse_text, "# nothing\n\n"), "0 points");
  CHECK_ERROR(error_of(parse_text, "x y z\n"), "0 points");
  CHECK_ERROR(error_of(parse_text, "1 2 3\n# two\n4 5\n"), "line 3: 2 columns in '4 5', expected at least 3");
  CHECK_ERROR(error_of(parse_text, "1 2 3\r\n4\r\n"), "line 2: 1 column in '4'");
  CHECK_ERROR(error_of(parse_text, "1 2 three\n"), "line 1, column 3: 'three', expected a finite number");
  CHECK_ERROR(error_of(parse_text, "1,,3\n"), "line 1, column 2: ''");
  CHECK_ERROR(error_of(parse_text, "1,5;2,5;3,5\n"), "line 1, column 1: '1,5'");
  CHECK_ERROR(error_of(parse_text, "1,5 2,5 3,5\n"), "line 1, column 2: '5 2'");
  CHECK_ERROR(error_of(parse_text, "3\n1 2 3\n4 5 6\n"), "2 points, expected 3 as in its first line");
  CHECK_ERROR(error_of(parse_text, "5\n"), "0 points, expected 5");
  CHECK_ERROR(error_of(parse_text, "18446744073709551615\n1 2 3\n"), "1 points, expected 18446744073709551615");
  CHECK_ERROR(error_of(parse_text, "99999999999999999999\n1 2 3\n"), "line 1: '99999999999999999999'");
  CHECK_ERROR(error_of(parse_text, "x y z x\n1 2 3 4\n"), "two columns with the name 'x'");
  CHECK_ERROR(error_of(parse_text, std::string("1 2 \0\n", 6)), "line 1, column 3: '?'");
  CHECK_ERROR(error_of(parse_text, "ply\nformat ascii 1.0\n"), "line 1: 1 column in 'ply'");
  CHECK_ERROR(error_of(parse_text, std::string(100000, '7')), "line 1: '7777");
  CHECK_ERROR(error_of(parse_text, "1 2 " + std::string(100000, '7')), "line 1, column 3: '7777");
  for (const char* number :
       {"nan", "NaN", "inf", "-inf", "Infinity", "1e39",  "-1e39", "1e999", "3.5e38", "0x1p3",  "1e",
        "1e+", ".",   "+",   "-",    "--1",      "1.2.3", "1f",    "1_000", "e5",     "\x1b[2J"}) {
    CHECK_ERROR(error_of(parse_text, "1 2 3\n4 5 " + std::string(number) + "\n"), "line 2, column 3");
  }
  CHECK_ERROR(error_of(parse_text, "nan nan nan\n1 2 3\n"), "line 1, column 1: 'nan'");
}

std::string text_of(const Bytes& bytes) { return std::string(bytes.begin(), bytes.end()); }

std::string floats(const std::vector<float>& numbers) {
  Bytes bytes;
  for (const float number : numbers) append_f32(bytes, number);
  return text_of(bytes);
}

void raw_floats_come_back() {
  const std::vector<float> numbers = {0, -0.0f, 1.5f, 3.4e38f, 1e-45f, -7};
  CHECK((parsed(parse_floats, floats(numbers)) == Numbers(numbers.begin(), numbers.end())));
  CHECK((parsed(parse_floats, floats(numbers), 6) == Numbers(numbers.begin(), numbers.end())));
  CHECK_ERROR(error_of(parse_floats, floats(numbers), 4), "24 bytes, expected a multiple of 16, 4 float32 per point");
  CHECK_ERROR(error_of(parse_floats, ""), "0 points");
  CHECK_ERROR(error_of(parse_floats, floats({1, 2, 3, 4, std::nanf(""), 6})),
              "point 1 (counted from 0): 'number 1' is");
  CHECK_ERROR(error_of(parse_floats, floats({1, 2, HUGE_VALF})), "point 0 (counted from 0): 'number 2' is inf");
}

struct Type {
  const char* name;
  const char* other_name;
  std::size_t size;
  double low, high;  // the range of an integer type, or of float32
};

constexpr double kLargest = 3.4028234663852886e38;
constexpr Type kTypes[] = {{"char", "int8", 1, -128, 127},
                           {"uchar", "uint8", 1, 0, 255},
                           {"short", "int16", 2, -32768, 32767},
                           {"ushort", "uint16", 2, 0, 65535},
                           {"int", "int32", 4, -2147483648.0, 2147483647.0},
                           {"uint", "uint32", 4, 0, 4294967295.0},
                           {"float", "float32", 4, -kLargest, kLargest},
                           {"double", "float64", 8, -kLargest, kLargest}};

const Type& type_named(const std::string& name) {
  for (const Type& type : kTypes) {
    if (name == type.name || name == type.other_name) return type;
  }
  throw std::logic_error("no type " + name);
}

// Writes a PLY body number by number.
class PlyWriter {
 public:
  explicit PlyWriter(const std::string& layout) : layout_(layout) {}

  void number(const Type& type, double value) {
    if (layout_ == "ascii") {
      char text[40];
      std::snprintf(text, sizeof text, "%.17g ", value);
      body_ += text;
      return;
    }
    Bytes bytes;
    if (type.name == std::string("double")) {
      append_f64(bytes, value);
    } else if (type.name == std::string("float")) {
      append_f32(bytes, static_cast<float>(value));
    } else {
      append_word(bytes, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
      bytes.resize(type.size);
    }
    if (layout_ == "binary_big_endian") std::reverse(bytes.begin(), bytes.end());
    body_ += text_of(bytes);
  }

  void end_element() {
    if (layout_ == "ascii") body_ += "\n";
  }

  // `declarations`: elements and properties, one per line.
  std::string file(const std::string& declarations, const std::string& end = "\n") const {
    std::string head;
    for (const char c : "ply\nformat " + layout_ + " 1.0\ncomment made up\n" + declarations + "end_header\n") {
      head += c == '\n' ? end : std::string(1, c);
    }
    return head + body_;
  }

 private:
  std::string layout_;
  std::string body_;
};

constexpr const char* kLayouts[] = {"ascii", "binary_little_endian", "binary_big_endian"};

void every_type_in_every_layout_comes_back() {
  for (const char* layout : kLayouts) {
    for (const Type& type : kTypes) {
      const bool real = type.name == std::string("float") || type.name == std::string("double");
      const Numbers points = {type.low, type.high, 1, 0, real ? 0.375 : 3, 100};
      for (const char* name : {type.name, type.other_name}) {
        std::string declarations = "element vertex 2\n";
        for (const char* axis : {"x", "y", "z"}) declarations += std::string("property ") + name + " " + axis + "\n";
        PlyWriter writer(layout);
        for (std::size_t i = 0; i < points.size(); ++i) {
          writer.number(type, points[i]);
          if (i % 3 == 2) writer.end_element();
        }
        for (const char* end : {"\n", "\r\n", "\r"}) {
          if (!CHECK(parsed(parse_ply, writer.file(declarations, end)) == points)) {
            std::cerr << "  for " << layout << " " << name << " lines ending with " << int{end[0]} << "\n";
          }
        }
      }
    }
  }
}

// A first byte of 10 is data after "end_header\r" if lines end with \r, and after \r\n or \n.
void a_first_byte_like_a_line_end_is_a_number() {
  PlyWriter writer("binary_little_endian");
  for (const double value : {10, 13, 10}) writer.number(type_named("uchar"), value);
  for (const char* end : {"\n", "\r\n", "\r"}) {
    const char* vertex = "element vertex 1\nproperty uchar x\nproperty uchar y\nproperty uchar z\n";
    CHECK((parsed(parse_ply, writer.file(vertex, end)) == Numbers{10, 13, 10}));
  }
}

// Properties in an odd order, lists, and elements around the vertices.
std::string rich_file(const std::string& layout) {
  PlyWriter writer(layout);
  const auto put = [&writer](const char* type, double value) { writer.number(type_named(type), value); };
  const auto list = [&put](const char* count, const char* type, int length) {
    put(count, length);
    for (int i = 0; i < length; ++i) put(type, 10 + i);
  };
  for (int i = 0; i < 3; ++i) {  // camera
    put("double", i);
    put("char", -i);
    writer.end_element();
  }
  for (int i = 0; i < 2; ++i) {  // strip
    list("ushort", "short", 4 - i);
    list("char", "double", i);
    writer.end_element();
  }
  for (int i = 0; i < 4; ++i) {  // vertex
    put("uchar", 200 + i);
    put("double", 3 + 10 * i);
    list("uchar", "int", i);
    put("float", 1.5 + 10 * i);
    list("uint", "uchar", 2);
    put("short", -7 - i);
    put("int", 2 + 10 * i);
    writer.end_element();
  }
  for (int i = 0; i < 2; ++i) {  // face
    list("uchar", "int", 3);
    writer.end_element();
  }
  return writer.file(
      "obj_info x y z\nelement camera 3\nproperty double x\nproperty int8 y\n"
      "element strip 2\nproperty list uint16 short a\nproperty list char float64 b\nelement void 99999999999999\n"
      "element vertex 4\nproperty uchar red\nproperty double z\nproperty list uint8 int near\nproperty float x\n"
      "property list uint uchar far\nproperty short class\nproperty int y\n"
      "element face 2\nproperty list uchar int vertex_indices\n");
}

void lists_order_and_other_elements_do_not_matter() {
  const Numbers xyz = {1.5, 2, 3, 11.5, 12, 13, 21.5, 22, 23, 31.5, 32, 33};
  const Numbers five = {1.5, 2, 3, 200, -7, 11.5, 12, 13, 201, -8, 21.5, 22, 23, 202, -9, 31.5, 32, 33, 203, -10};
  for (const char* layout : kLayouts) {
    CHECK(parsed(parse_ply, rich_file(layout)) == xyz);
    CHECK(parsed(parse_ply, rich_file(layout), 5) == five);
    CHECK_ERROR(error_of(parse_ply, rich_file(layout), 6), "5 properties per vertex, expected at least 6");
  }
}

void a_file_cut_anywhere_is_refused() {
  for (const char* layout : kLayouts) {
    const std::string whole = rich_file(layout);
    // A text may lose the end of its last line, the blank before it and one digit of the last number.
    const std::size_t spare = layout == std::string("ascii") ? 3 : 0;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const std::string error = error_of(parse_ply, whole.substr(0, size));
      if (size + spare < whole.size()) CHECK_ERROR(error, ", expected ");
      error_of(parse_text, whole.substr(0, size));
      error_of(parse_floats, whole.substr(0, size));
    }
  }
  const std::string text = "3\n# a\n1 2 3\r\n4,5,6\n7;8;9;x\n";
  for (std::size_t size = 0; size < text.size(); ++size) {
    const bool whole = size >= text.find("9") + 1;
    CHECK_EQUAL(error_of(parse_text, text.substr(0, size)).empty(), whole);
  }
}

// Damage anywhere gives a cloud of finite numbers or an error.
void changed_bytes_never_crash() {
  std::mt19937 random(1);
  const std::string text = "5\nx,y,z,r\n1,2,3,4\n5e1,6,7.5,8 # a\n-9;1;2;3\n4 5 6 7\n8 9 1 2 // b\n";
  std::vector<std::pair<Parse, std::string>> files = {{parse_text, text}, {parse_floats, floats({1, 2, 3, 4, 5, 6})}};
  for (const char* layout : kLayouts) files.emplace_back(parse_ply, rich_file(layout));
  for (const auto& [parse, whole] : files) {
    for (int trial = 0; trial < 4000; ++trial) {
      std::string damaged = whole;
      for (unsigned change = 0; change < 1 + random() % 3; ++change) {
        const std::size_t at = random() % damaged.size();
        const char byte = static_cast<char>(random() % 256);
        const unsigned kind = static_cast<unsigned>(random() % 4);
        if (kind == 0) damaged.erase(at, 1);
        if (kind == 1) damaged.insert(at, 1, byte);
        if (kind == 2) damaged[at] = byte;
        if (kind == 3) damaged[at] = "0123456789 \n-.e"[random() % 15];
      }
      const std::size_t channels = 3 + random() % 3;
      try {
        const Numbers numbers = parsed(parse, damaged, channels);
        CHECK(!numbers.empty() && numbers.size() % channels == 0 && numbers.size() <= damaged.size());
        for (const double number : numbers) CHECK(std::abs(number) <= kLargest);
      } catch (const CloudError&) {
      }
    }
  }
}

std::string header(const std::string& format, const std::string& declarations) {
  return "ply\nformat " + format + " 1.0\n" + declarations + "end_header\n";
}

constexpr const char* kXyz = "property float x\nproperty float y\nproperty float z\n";

void hostile_headers_are_refused() {
  const std::string vertex = std::string("element vertex 1\n") + kXyz, body(12, '\0');
  CHECK_EQUAL(error_of(parse_ply, header("binary_little_endian", vertex) + body), "");
  CHECK_ERROR(error_of(parse_ply, ""), "begins with '', expected 'ply'");
  CHECK_ERROR(error_of(parse_ply, "PLY\nformat ascii 1.0\n"), "begins with 'PLY'");
  CHECK_ERROR(error_of(parse_ply, "ply\n" + vertex + "end_header\n"), "line 6: 'end_header', expected format");
  CHECK_ERROR(error_of(parse_ply, "ply\nend_header\n"), "line 2: 'end_header', expected format");
  CHECK_ERROR(error_of(parse_ply, header("ascii", vertex) + "1 2\n3\n"), "line 8: 2 numbers, expected more");
  CHECK_ERROR(error_of(parse_ply, header("ascii", vertex) + "1 2 nan\n"), "line 8, column 3: 'nan'");
  CHECK_ERROR(error_of(parse_ply, header("utf8", vertex)), "line 2: an unknown format");
  CHECK_ERROR(error_of(parse_ply, "ply\nformat ascii 2.0\n" + vertex), "line 2: an unknown format");
  CHECK_ERROR(error_of(parse_ply, header("ascii", "format ascii 1.0\n" + vertex)), "line 3: 'format'");
  CHECK_ERROR(error_of(parse_ply, header("ascii", "property float x\n" + vertex)), "line 3: 'property'");
  CHECK_ERROR(error_of(parse_ply, header("ascii", "elephant\n" + vertex)), "line 3: 'elephant'");
  CHECK_ERROR(error_of(parse_ply, header("ascii", "element face 0\n")), "0 elements with the name vertex, expected 1");
  CHECK_ERROR(error_of(parse_ply, header("ascii", vertex + vertex) + "1 2 3\n1 2 3\n"), "2 elements");
  const auto with_property = [&](const char* line) {
    return error_of(parse_ply, header("ascii", vertex + "property " + line + "\n") + "1 2 3 4\n");
  };
  CHECK_ERROR(with_property("int x"), "two columns with the name 'x'");
  CHECK_ERROR(with_property("half w"), "line 7: the type 'half'");
  CHECK_ERROR(with_property("float"), "line 7: a property ending with 'float'");
  CHECK_ERROR(with_property("list uchar int"), "line 7: a property ending with 'int'");
  CHECK_ERROR(with_property("list float int a"), "line 7: a list counted by 'float'");
  CHECK_ERROR(error_of(parse_ply, header("ascii", replaced(vertex, "float z", "float w")) + "1 2 3\n"),
              "3 properties per vertex, x, y or z is missing");
  CHECK_ERROR(error_of(parse_ply, header("ascii", "element vertex 1\n")), "0 properties per vertex");
  CHECK_ERROR(error_of(parse_ply, header("ascii", std::string("element vertex 0\n") + kXyz)), "0 points");
  for (const char* count : {"-1", "1e3", "+1", "0x1", "1.0", "99999999999999999999", ""}) {
    const std::string element = std::string("element vertex ") + count + "\n";
    CHECK_ERROR(error_of(parse_ply, header("binary_big_endian", element + kXyz) + body), "line 3: an element");
  }
  for (const char* count : {"2", "4294967296", "1537228672809129302", "6148914691236517206", "18446744073709551615"}) {
    const std::string element = std::string("element vertex ") + count + "\n";
    CHECK_ERROR(error_of(parse_ply, header("binary_little_endian", element + kXyz) + body), "12 bytes, expected ");
    CHECK_ERROR(error_of(parse_ply, header("ascii", element + kXyz) + "1 2 3"), "element 'vertex'");
    const std::string faces = std::string("element face ") + count + "\nproperty list uchar int i\n";
    CHECK_ERROR(error_of(parse_ply, header("binary_big_endian", faces + vertex) + body.substr(0, 1)), "element 'face'");
    const std::string nothing = std::string("element nothing ") + count + "\n";  // needs no bytes and no time
    CHECK_EQUAL(error_of(parse_ply, header("binary_big_endian", nothing + vertex) + body), "");
    CHECK_EQUAL(error_of(parse_ply, header("ascii", nothing + vertex) + "1 2 3\n"), "");
  }
}

void hostile_lists_and_numbers_are_refused() {
  for (const char* layout : kLayouts) {
    for (const char* type : {"char", "int"}) {
      PlyWriter writer(layout);
      for (int i = 0; i < 3; ++i) writer.number(type_named("float"), i);
      writer.number(type_named(type), -1);
      writer.end_element();
      const std::string list = std::string("property list ") + type + " uchar a\n";
      CHECK_ERROR(error_of(parse_ply, writer.file(std::string("element vertex 1\n") + kXyz + list)),
                  layout == std::string("ascii") ? "'-1', expected the length of a list" : "a list of length -1");
    }
    PlyWriter writer(layout);
    writer.number(type_named("uint"), 4294967295.0);
    for (int i = 0; i < 3; ++i) writer.number(type_named("float"), i);
    writer.end_element();
    CHECK_ERROR(error_of(parse_ply, writer.file(std::string("element vertex 1\nproperty list uint double a\n") + kXyz)),
                layout == std::string("ascii") ? "4 numbers, expected more" : "the file ends after 0, expected 1");
  }
  for (const double number : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e39, 3.4028235e38}) {
    for (const char* layout : kLayouts) {
      PlyWriter writer(layout);
      for (const double value : {1.0, 2.0, 3.0, 4.0, number, 6.0}) writer.number(type_named("double"), value);
      const std::string error = error_of(
          parse_ply, writer.file("element vertex 2\nproperty double x\nproperty double y\nproperty double z\n"));
      CHECK_ERROR(error, layout == std::string("ascii") ? "expected" : "point 1 (counted from 0): 'y' is ");
    }
  }
}

class Folder {
 public:
  Folder() {
    std::random_device random;
    do {
      path_ = std::filesystem::temp_directory_path() / ("bipointnet-" + std::to_string(random()));
    } while (!std::filesystem::create_directory(path_));
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

void the_suffix_says_the_format(const Folder& folder) {
  const std::vector<float> expected = {1, 2, 3, 4, 5, 6};
  const std::string text = "1 2 3\n4 5 6\n";
  const std::string ply = header("ascii", std::string("element vertex 2\n") + kXyz) + text;
  for (const char* name : {"a.xyz", "b.txt", "c.csv", "d.pts", "E.XYZ", "f.ply.xyz"}) {
    CHECK(read_cloud(folder.write(name, text), 3, true) == expected);
  }
  for (const char* name : {"a.f32", "b.bin", "c.raw"}) {
    CHECK(read_cloud(folder.write(name, floats(expected)), 3, true) == expected);
  }
  CHECK(read_cloud(folder.write("a.PLY", ply), 3, true) == expected);
  const auto error = [&](const std::string& path) { return error_of([&] { read_cloud(path, 3, true); }); };
  for (const char* name : {"a.obj", "a", "a.", ".d/a", "xyz"}) {
    CHECK_ERROR(error(folder.path(name)), "the suffix is '");
    CHECK_ERROR(error(folder.path(name)), "expected one of " + cloud_suffixes());
  }
  CHECK_ERROR(error(folder.path("none.xyz")), folder.path("none.xyz") + ": cannot open the file (");
  CHECK_ERROR(error(folder.write("bad.xyz", "1 2 3\n4 5\n")), folder.path("bad.xyz") + ": line 2: 2 columns");
  std::filesystem::create_directory(folder.path("folder.xyz"));
  CHECK_ERROR(error(folder.path("folder.xyz")), "folder.xyz: cannot ");
}

// Larger than a buffer, so that no part of a file is lost or read twice.
void large_files_come_back(const Folder& folder) {
  std::vector<float> expected;
  std::string text;
  for (int i = 0; i < 60000; ++i) {
    expected.push_back(static_cast<float>(i) / 8);
    text += std::to_string(i / 8) + "." + std::to_string(1000 + 125 * (i % 8)).substr(1) + (i % 3 == 2 ? "\n" : " ");
  }
  CHECK(read_cloud(folder.write("large.xyz", text), 3, true) == expected);
  CHECK(read_cloud(folder.write("large.f32", floats(expected)), 3, true) == expected);
}

void a_far_cloud_keeps_its_shape() {
  const Numbers far = {500000.25, 5400000.5, 300.125, 9, 500001.5, 5400002.75, 301.5, 8};
  CHECK((to_float32(far, 4, true) == std::vector<float>{0.25f, 0.5f, 0.125f, 9, 1.5f, 2.75f, 1.5f, 8}));
  CHECK_EQUAL(to_float32(far, 4, false)[1], static_cast<float>(5400000.5));
  CHECK((to_float32({1, 2, 3, 1.1, 2, 3}, 3, true) == std::vector<float>{1, 2, 3, 1.1f, 2, 3}));
  CHECK((to_float32({5e9 + 1, 0, 0}, 3, true) == std::vector<float>{static_cast<float>(5e9 + 1), 0, 0}));
}

}  // namespace

int main() {
  all_ways_to_write_a_text_give_the_same_points();
  more_channels_are_the_next_columns();
  an_error_names_the_line();
  raw_floats_come_back();
  every_type_in_every_layout_comes_back();
  a_first_byte_like_a_line_end_is_a_number();
  lists_order_and_other_elements_do_not_matter();
  a_file_cut_anywhere_is_refused();
  changed_bytes_never_crash();
  hostile_headers_are_refused();
  hostile_lists_and_numbers_are_refused();
  const Folder folder;
  the_suffix_says_the_format(folder);
  large_files_come_back(folder);
  a_far_cloud_keeps_its_shape();
  return check_report();
}
