// PLY files give the points and faces that were written, in the order of the file, whatever program wrote them.
#include <cstdio>

#include "cloud_checks.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

using Faces = std::vector<std::int64_t>;

struct Type {
  const char* name;
  const char* other_name;
  std::size_t size;
  double low, high;  // the range of an integer type, or of float32
};

constexpr double kLargest = 3e38;
constexpr Type kTypes[] = {{"char", "int8", 1, -128, 127},
                           {"uchar", "uint8", 1, 0, 255},
                           {"short", "int16", 2, -32768, 32767},
                           {"ushort", "uint16", 2, 0, 65535},
                           {"int", "int32", 4, -2147483648.0, 2147483647.0},
                           {"uint", "uint32", 4, 0, 4294967295.0},
                           {"long", "int64", 8, -9223372036854775808.0, 4611686018427387904.0},
                           {"ulong", "uint64", 8, 0, 4611686018427387904.0},
                           {"float", "float32", 4, -kLargest / 2, kLargest / 2},
                           {"double", "float64", 8, -kLargest / 2, kLargest / 2}};
constexpr const char* kLayouts[] = {"ascii", "binary_little_endian", "binary_big_endian"};
constexpr const char* kXyz = "property float x\nproperty float y\nproperty float z\n";

std::string header(const std::string& format, const std::string& declarations) {
  return "ply\nformat " + format + " 1.0\n" + declarations + "end_header\n";
}

// Writes a body number by number.
class PlyWriter {
 public:
  explicit PlyWriter(const std::string& layout) : layout_(layout), binary_(layout == "binary_big_endian") {}

  PlyWriter& put(const std::string& type, double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g ", value);
    if (layout_ == "ascii") {
      binary_.text(text);
    } else if (type == "double" || type == "float64") {
      binary_.f64(value);
    } else if (type == "float" || type == "float32") {
      binary_.f32(static_cast<float>(value));
    } else {
      for (const Type& known : kTypes) {
        if (type == known.name || type == known.other_name) {
          binary_.integer(known.size, static_cast<std::int64_t>(value));
        }
      }
    }
    return *this;
  }
  PlyWriter& put(const std::string& type, const Numbers& values) {
    for (const double value : values) put(type, value);
    return *this;
  }
  PlyWriter& list(const std::string& length, const std::string& type, const Numbers& values) {
    return put(length, static_cast<double>(values.size())).put(type, values);
  }
  PlyWriter& end() {
    if (layout_ == "ascii") binary_.text("\n");
    return *this;
  }

  // `declarations`: elements and properties, one per line.
  std::string file(const std::string& declarations, const std::string& line_end = "\n") const {
    std::string head;
    for (const char c : header(layout_, "comment made up\n" + declarations)) {
      head += c == '\n' ? line_end : std::string(1, c);
    }
    return head + binary_.bytes();
  }

 private:
  std::string layout_;
  BinaryWriter binary_;
};

void every_type_in_every_layout_comes_back() {
  for (const char* layout : kLayouts) {
    for (const Type& type : kTypes) {
      const bool real = type.name == std::string("float") || type.name == std::string("double");
      const Numbers points = {type.low, type.high, 1, 0, real ? 0.375 : 3, 100};
      for (const char* name : {type.name, type.other_name}) {
        std::string declarations = "element vertex 2\n";
        for (const char* axis : {"x", "y", "z"}) declarations += std::string("property ") + name + " " + axis + "\n";
        PlyWriter writer(layout);
        for (std::size_t i = 0; i < 6; i += 3) writer.put(name, {points[i], points[i + 1], points[i + 2]}).end();
        for (const char* line_end : {"\n", "\r\n", "\r"}) {
          const Cloud cloud = read_bytes(writer.file(declarations, line_end), "a.ply");
          if (!CHECK(cloud.points == Floats(points.begin(), points.end()))) std::cerr << layout << " " << name << "\n";
        }
      }
    }
  }
}

// A first byte of 10 is data after "end_header\r" if lines end with \r, and after \r\n or \n.
void a_first_byte_like_a_line_end_is_a_number() {
  PlyWriter writer("binary_little_endian");
  writer.put("uchar", Numbers{10, 13, 10});
  for (const char* line_end : {"\n", "\r\n", "\r"}) {
    const char* vertex = "element vertex 1\nproperty uchar x\nproperty uchar y\nproperty uchar z\n";
    CHECK_POINTS(writer.file(vertex, line_end), "a.ply", {10, 13, 10});
  }
}

// Properties in an odd order, lists, and elements before and after the vertices.
std::string rich_file(const std::string& layout) {
  PlyWriter writer(layout);
  for (int i = 0; i < 3; ++i) writer.put("double", i).put("char", -i).end();  // camera
  for (int i = 0; i < 2; ++i) {                                               // strip
    writer.list("ushort", "short", Numbers(std::size_t(4 - i), 7));
    writer.list("char", "double", Numbers(std::size_t(i), 0.5)).end();
  }
  writer.list("uchar", "float", {0.5, 0.25}).list("uchar", "int", {0, 1, 2, 3}).put("uchar", 255).end();  // face
  writer.list("uchar", "float", {}).list("uchar", "int", {3, 2, 0}).put("uchar", 0).end();
  writer.list("uchar", "float", {}).list("uchar", "int", {3, 2}).put("uchar", 0).end();
  for (int i = 0; i < 4; ++i) {  // vertex
    writer.put("uchar", 200 + i).put("double", 3 + 10 * i * i).list("uchar", "int", Numbers(std::size_t(i), 9));
    writer.put("float", 1.5 + 10 * i).list("uint", "uchar", {1, 2}).put("short", -7 - i).put("int", 2 - 10 * i).end();
  }
  for (int i = 0; i < 2; ++i) writer.put("int", Numbers{0, 1}).end();  // edge
  return writer.file(
      "obj_info x y z\nelement camera 3\nproperty double x\nproperty int8 y\ncomment end_header\n"
      "element strip 2\nproperty list uint16 short a\nproperty list char float64 b\nelement void 99999999999999\n"
      "element face 3\nproperty list uchar float texcoord\nproperty list uchar int vertex_indices\nproperty uchar red\n"
      "element vertex 4\nproperty uchar red\nproperty double z\nproperty list uint8 int near\nproperty float x\n"
      "property list uint uchar far\nproperty short class\nproperty int y\n"
      "element edge 2\nproperty int vertex1\nproperty int vertex2\n");
}

void lists_order_and_other_elements_do_not_matter() {
  for (const char* layout : kLayouts) {
    const Cloud cloud =
        CHECK_POINTS(rich_file(layout), "a.ply", {1.5, 2, 3, 11.5, -8, 13, 21.5, -18, 43, 31.5, -28, 93});
    CHECK((cloud.faces == Faces{0, 1, 2, 0, 2, 3, 3, 2, 0}));
    CHECK((cloud.columns == Names{"red", "z", "x", "class", "y"}));
    CHECK((field(cloud, "class") == Numbers{-7, -8, -9, -10}));
    CHECK_EQUAL(cloud.fields.at(0).bits, 8u);
    CHECK(has_note(cloud, "the list 'near' of the vertices was left out") && has_note(cloud, "'far'"));
  }
}

void damaged_files_give_a_cloud_or_a_sentence() {
  for (const char* layout : kLayouts) {
    // Text may lose the end of its last line, the blank before it and the digit before.
    check_cuts(rich_file(layout), "a.ply", layout == std::string("ascii") ? 3 : 0);
    check_damage(rich_file(layout), "a.ply");
  }
}

const std::string kFour = "0 0 0\n1 0 0\n1 1 0\n0 1 0\n";
const std::string kFourVertices = std::string("element vertex 4\n") + kXyz;

// As written by Blender, MeshLab, Open3D, PCL, CloudCompare and Stanford's scanners.
void files_of_other_programs() {
  const Floats four = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0};
  const auto faces_of = [&](const std::string& bytes) {
    const Cloud cloud = read_bytes(bytes, "a.ply");
    CHECK(cloud.points == four);
    return cloud.faces;
  };
  const std::string list = "property list uchar uint vertex_indices\n";
  CHECK((faces_of(header("ascii", "comment Created by Blender\n" + kFourVertices + "element face 2\n" + list) + kFour +
                  "4 0 1 2 3\n3 0 1 2\n") == Faces{0, 1, 2, 0, 2, 3, 0, 1, 2}));
  CHECK((faces_of(header("ascii", kFourVertices + "element face 1\nproperty list uchar int vertex_index\n") + kFour +
                  "3 3 1 2 255 0 0 255\n") == Faces{3, 1, 2}));
  CHECK((faces_of(header("ascii", kFourVertices + "element tristrips 1\nproperty list int int vertex_indices\n") +
                  kFour + "8 0 1 2 3 -1 3 1 0\n") == Faces{0, 1, 2, 2, 1, 3, 3, 1, 0}));
  CHECK(faces_of(header("ascii", kFourVertices + "element face 0\n" + list) + kFour).empty());
  CHECK(faces_of(header("ascii", kFourVertices + "element edge 1\nproperty int vertex1\nproperty int vertex2\n") +
                 kFour + "0 1\n\n")
            .empty());
  CHECK(faces_of("\xEF\xBB\xBFply\r\nformat ascii 1.0\r\nelement vertex 0004 \r\n" + std::string(kXyz) +
                 "end_header\r\n\r\n" + kFour)
            .empty());
  const std::string unknown = kFourVertices + "element face 1\nproperty list uchar int ids\n";
  const Cloud other = read_bytes(header("ascii", unknown) + kFour + "3 0 1 2\n", "a.ply");
  CHECK(other.faces.empty() && has_note(other, "has no list vertex_indices"));
  const Cloud longer = read_bytes(header("ascii", kFourVertices) + kFour + "5 5 5\n", "a.ply");
  CHECK(longer.points == four && has_note(longer, "6 bytes more than it declares"));
}

void colors_of_every_type() {
  const auto colors_of = [](const std::string& type, const std::string& prefix, const std::string& numbers) {
    std::string declarations = std::string("element vertex 1\n") + kXyz;
    for (const char* name : {"red", "green", "blue", "alpha"}) {
      declarations += "property " + type + " " + prefix + name + "\n";
    }
    return read_bytes(header("ascii", declarations) + "1 2 3 " + numbers + "\n", "a.ply").colors;
  };
  CHECK((colors_of("uchar", "", "255 0 51 9") == Floats{1, 0, 0.2f}));
  CHECK((colors_of("uchar", "diffuse_", "1 1 0 255") == Floats{1 / 255.f, 1 / 255.f, 0}));
  CHECK((colors_of("ushort", "", "65535 0 13107 9") == Floats{1, 0, 0.2f}));
  CHECK((colors_of("float", "", "1 0 0.25 1") == Floats{1, 0, 0.25f}));
  CHECK((colors_of("uchar", "", "1 0 0.25 1") == Floats{1, 0, 0.25f}));  // not what it declares
  CHECK(colors_of("uchar", "", "300 -1 0 1").empty());
}

void hostile_headers_are_refused() {
  const std::string vertex = std::string("element vertex 1\n") + kXyz, body(12, '\0');
  const auto refused = [](const std::string& bytes) { return error_of(bytes, "a.ply"); };
  CHECK_EQUAL(refused(header("binary_little_endian", vertex) + body), "");
  CHECK_ERROR(refused("PLY\nformat ascii 1.0\n"), "begins with 'PLY'");
  CHECK_ERROR(refused("ply\n" + vertex + "end_header\n"), "line 6: 'end_header', expected format");
  CHECK_ERROR(refused("ply\nend_header\n"), "line 2: 'end_header', expected format");
  CHECK_ERROR(refused(header("ascii", vertex) + "1 2\n3\n"), "line 8: 2 numbers in '1 2', expected more");
  CHECK_ERROR(refused(header("ascii", vertex) + "1 2 3 4\n"), "line 8, column 4: one number too many, '4', expected 3 numbers");
  CHECK_ERROR(refused(header("ascii", vertex) + "1 2 z\n"), "line 8, column 3: 'z', expected a number");
  CHECK_ERROR(refused(header("ascii", vertex) + "1 2 nan\n"), "no point with finite coordinates");
  CHECK_ERROR(refused(header("utf8", vertex)), "line 2: an unknown format");
  CHECK_ERROR(refused("ply\nformat ascii 2.0\n" + vertex), "line 2: an unknown format");
  CHECK_ERROR(refused(header("ascii", "format ascii 1.0\n" + vertex)), "line 3: 'format'");
  CHECK_ERROR(refused(header("ascii", "property float x\n" + vertex)), "line 3: 'property'");
  CHECK_ERROR(refused(header("ascii", "elephant\n" + vertex)), "line 3: 'elephant'");
  CHECK_ERROR(refused(header("ascii", "element face 0\n")), "0 elements with the name vertex, expected 1");
  CHECK_ERROR(refused(header("ascii", vertex + vertex) + "1 2 3\n1 2 3\n"), "2 elements");
  const auto with_property = [&](const char* line) {
    return refused(header("ascii", vertex + "property " + line + "\n") + "1 2 3 4\n");
  };
  CHECK_ERROR(with_property("int x"), "two columns with the name 'x'");
  CHECK_ERROR(with_property("half w"), "line 7: the type 'half'");
  CHECK_ERROR(with_property("float"), "line 7: a property ending with 'float'");
  CHECK_ERROR(with_property("list uchar int"), "line 7: a property ending with 'int'");
  CHECK_ERROR(with_property("list float int a"), "line 7: a list counted by 'float'");
  CHECK_ERROR(refused(header("ascii", "element vertex 1\nproperty float x\n") + "1\n"),
              "the columns 'x', expected x, y and z");
  CHECK_ERROR(refused(header("ascii", std::string("element vertex 0\n") + kXyz)), "0 points");
  CHECK_ERROR(refused(header("ascii", "element vertex 1\nproperty list uchar int a\n") + "1 2\n"),
              "no columns of numbers, expected x, y and z");
  for (const char* count : {"-1", "1e3", "+1", "0x1", "1.0", "99999999999999999999", ""}) {
    const std::string element = std::string("element vertex ") + count + "\n";
    CHECK_ERROR(refused(header("binary_big_endian", element + kXyz) + body), "line 3: an element");
  }
  for (const char* count : {"2", "4294967296", "1537228672809129302", "6148914691236517206", "18446744073709551615"}) {
    const std::string element = std::string("element vertex ") + count + "\n";
    const auto cut = [count](const std::string& name) {
      return "the file is cut short after 1 item of element '" + name + "', expected " + count + "; copy";
    };
    CHECK_ERROR(refused(header("binary_little_endian", element + kXyz) + body), cut("vertex"));
    CHECK_ERROR(refused(header("ascii", element + kXyz) + "1 2 3"), cut("vertex"));
    const std::string faces = std::string("element face ") + count + "\nproperty list uchar int vertex_index\n";
    CHECK_ERROR(refused(header("binary_big_endian", faces + vertex) + body.substr(0, 1)), cut("face"));
    const std::string nothing = std::string("element nothing ") + count + "\n";  // needs no bytes and no time
    CHECK_EQUAL(refused(header("binary_big_endian", nothing + vertex) + body), "");
    CHECK_EQUAL(refused(header("ascii", nothing + vertex) + "1 2 3\n"), "");
  }
}

void hostile_lists_are_refused() {
  const std::string three = std::string("element vertex 3\n") + kXyz + "element face 1\n";
  for (const char* layout : kLayouts) {
    const bool text = layout == std::string("ascii");
    for (const char* type : {"char", "int"}) {
      PlyWriter writer(layout);
      writer.put("float", Numbers{1, 2, 3}).put(type, -1).end();
      const std::string list = std::string("property list ") + type + " uchar a\n";
      CHECK_REFUSED(writer.file(std::string("element vertex 1\n") + kXyz + list), "a.ply",
                    text ? "'-1', expected the length of a list" : "a list of negative length, expected 0 or more");
    }
    for (const double length : {1e9, 4294967295.0, 1e16}) {
      PlyWriter writer(layout);
      writer.put("ulong", length).put("float", Numbers{1, 2, 3}).end();
      CHECK_REFUSED(writer.file(std::string("element vertex 1\nproperty list ulong double a\n") + kXyz), "a.ply",
                    text ? "expected more for" : "cut short after 0 items of element 'vertex', expected 1");
    }
    for (const double corner : {-1.0, 3.0, 4e9, 4e18}) {
      PlyWriter writer(layout);
      for (int i = 0; i < 3; ++i) writer.put("float", Numbers{double(i), double(i * i), 0}).end();
      writer.list("uchar", "long", {0, 1, corner}).end();
      CHECK_REFUSED(writer.file(three + "property list uchar long vertex_index\n"), "a.ply", "triangle 0: the vertex");
    }
    PlyWriter writer(layout);
    for (int i = 0; i < 3; ++i) writer.put("float", Numbers{double(i), double(i * i), 0}).end();
    writer.list("uchar", "double", {0, 1, 1.5}).end();
    CHECK_REFUSED(writer.file(three + "property list uchar double vertex_index\n"), "a.ply",
                  "a corner that is not a whole number");
  }
}

void a_polygon_of_many_corners_is_cut_in_linear_time() {
  constexpr std::size_t corners = kSmallMemory ? 30000 : 300000;
  for (const char* layout : kLayouts) {
    PlyWriter writer(layout);
    for (int i = 0; i < 3; ++i) writer.put("float", Numbers{double(i), double(i * i), 0}).end();
    Numbers polygon(corners);
    for (std::size_t i = 0; i < corners; ++i) polygon[i] = double(i % 3);
    writer.list("int", "int", polygon).end();
    const std::string declarations = std::string("element vertex 3\n") + kXyz + "element face 1\n";
    const Cloud cloud = read_bytes(writer.file(declarations + "property list int int vertex_indices\n"), "a.ply");
    CHECK_EQUAL(cloud.faces.size(), 3 * (corners - 2));
  }
}

}  // namespace

int main() {
  every_type_in_every_layout_comes_back();
  a_first_byte_like_a_line_end_is_a_number();
  lists_order_and_other_elements_do_not_matter();
  damaged_files_give_a_cloud_or_a_sentence();
  files_of_other_programs();
  colors_of_every_type();
  hostile_headers_are_refused();
  hostile_lists_are_refused();
  a_polygon_of_many_corners_is_cut_in_linear_time();
  return check_report();
}
