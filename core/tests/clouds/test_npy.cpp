// Arrays of NumPy.
#include "cloud_checks.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

std::string npy(const std::string& header, const std::string& body, int version = 1) {
  BinaryWriter file;
  file.text("\x93NUMPY").integer(1, version).integer(1, 0);
  file.integer(version == 1 ? 2 : 4, static_cast<std::int64_t>(header.size())).text(header).text(body);
  return file.bytes();
}

std::string header(const std::string& type, const std::string& shape, bool fortran = false) {
  return "{'descr': " + type + ", 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape +
         ", }     \n";
}

const Floats kPoints = {1, 2, 3, 4, 5, 6};

std::string numbers(const std::string& type, const std::vector<int>& values) {
  BinaryWriter writer(type[0] == '>');
  const auto size = static_cast<std::size_t>(type[2] - '0');
  for (const int value : values) {
    if (type[1] == 'f' && size == 8) {
      writer.f64(value);
    } else if (type[1] == 'f' && size == 4) {
      writer.f32(static_cast<float>(value));
    } else {
      constexpr int halves[] = {0, 0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600};
      writer.integer(size, type[1] == 'f' ? halves[value] : value);
    }
  }
  return writer.bytes();
}

void every_type_and_order_comes_back() {
  for (const char* end : {"<", ">", "|", "="}) {
    for (const char* kind : {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"}) {
      const std::string type = std::string(end) + kind;
      for (int version = 1; version <= 3; ++version) {
        CHECK_POINTS(npy(header("'" + type + "'", "(2, 3)"), numbers(type, {1, 2, 3, 4, 5, 6}), version), "a.npy",
                     (kPoints));
      }
      CHECK_POINTS(npy(header("'" + type + "'", "(2L, 3L)", true), numbers(type, {1, 4, 2, 5, 3, 6})), "a.npy",
                   (kPoints));
    }
  }
  CHECK_POINTS(npy(header("'<i2'", "(1, 3)"), BinaryWriter().integer(2, -2).integer(2, 3).integer(2, -32768).bytes()),
               "a.npy", {-2, 3, -32768});
}

void half_floats_are_exact() {
  BinaryWriter half;
  for (const int word : {0x0001, 0x03FF, 0x0400, 0x7BFF, 0xC248, 0x8000, 0x7C00, 0, 0, 0x7E01, 0, 0})
    half.integer(2, word);
  const Cloud cloud =
      CHECK_POINTS(npy(header("'<f2'", "(4, 3)"), half.bytes()), "a.npy",
                   {std::ldexp(1.0f, -24), std::ldexp(1023.0f, -24), std::ldexp(1.0f, -14), 65504, -3.140625f, 0});
  CHECK_EQUAL(cloud.dropped, std::size_t{2});
}

void more_columns_are_named_by_position_or_by_the_user() {
  const std::string file = npy(header("'|u1'", "(1, 7)"), std::string("\x01\x02\x03\xFF\x00\x33\x07", 7));
  const Cloud cloud = CHECK_POINTS(file, "a.npy", {1, 2, 3});
  CHECK((cloud.colors == Floats{1, 0, 0.2f}) && (field(cloud, "column 7") == Numbers{7}));
  const Cloud named =
      CHECK_POINTS_WITH((ReadOptions{{"z", "y", "x", "a", "-", "b", "label"}, false}), file, "a.npy", {3, 2, 1});
  CHECK((named.columns == Names{"z", "y", "x", "a", "b", "label"}) && (field(named, "label") == Numbers{7}));
  CHECK_ERROR(error_of(file, "a.npy", {{"x", "y", "z"}, false}), "7 columns, expected 3 as in --columns");
}

void structured_arrays_name_their_columns() {
  const std::string flat =
      "[('intensity', '<u2'), ('', '|V2'), ('z', '<f4'), ('x', '>f4'), (('title', 'y'), '<f8'), ('s', '<U2')]";
  BinaryWriter body;
  for (int i = 0; i < 2; ++i) {
    body.integer(2, 7 + i).text("??").f32(static_cast<float>(3 + 3 * i));
    body.text(BinaryWriter(true).f32(static_cast<float>(1 + 3 * i)).bytes()).f64(2 + 3 * i).text(std::string(8, 'u'));
  }
  for (const char* shape : {"(2,)", "(2, 1)", "(1,2)"}) {
    const Cloud cloud = CHECK_POINTS(npy(header(flat, shape), body.bytes()), "a.npy", (kPoints));
    CHECK((field(cloud, "intensity") == Numbers{7, 8}));
    CHECK(has_note(cloud, "the field 's' holds no numbers and was left out"));
  }
  const std::string floats = float32_bytes({1, 2, 3, 0.5f, 0, 1, 4, 5, 6, 0.25f, 0, 1});
  for (const char* type : {"[('pos', '<f4', (3,)), ('rgb', '<f4', (3,))]",
                           "[('position', [('x', '<f4'), ('y', '<f4'), ('z', '<f4')]), ('colors', '<f4', (3, 1))]"}) {
    const Cloud cloud = CHECK_POINTS(npy(header(type, "(2,)"), floats), "a.npy", (kPoints));
    CHECK((cloud.colors == Floats{0.5f, 0, 1, 0.25f, 0, 1}));
  }
  CHECK_REFUSED(npy(header("[('a', '<f4'), ('b', '<f4')]", "(2,)"), float32_bytes({1, 2, 3, 4})), "a.npy",
                "the columns 'a', 'b', expected x, y and z");
  CHECK_ERROR(error_of(npy(header(flat, "(2,)"), body.bytes()), "a.npy", {{"x", "y", "z"}, false}),
              "--columns for an array");
}

void other_shapes_and_types_are_refused() {
  const auto shaped = [](const std::string& shape) { return npy(header("'<f4'", shape), std::string(4800, '\0')); };
  CHECK_REFUSED(shaped("(3, 17)"), "a.npy", "an array of shape (3, 17), expected (points, 3 or more); transpose it");
  CHECK_REFUSED(shaped("(4, 300)"), "a.npy", "transpose it");
  CHECK_EQUAL(error_of(shaped("(3, 3)"), "a.npy"), "");
  CHECK_EQUAL(error_of(shaped("(3, 16)"), "a.npy"), "");
  for (const char* shape : {"()", "(300,)", "(100, 2)", "(20, 5, 3)", "(100, 0)"})
    CHECK_REFUSED(shaped(shape), "a.npy", "reshape it");
  CHECK_REFUSED(shaped("(0, 3)"), "a.npy", "0 points");
  for (const char* shape :
       {"(401, 3)", "(18446744073709551615, 3)", "(6148914691236517206, 3)", "(4611686018427387904, 4)"}) {
    CHECK_REFUSED(shaped(shape), "a.npy", ", expected ");
  }
  for (const char* type :
       {"'|O'", "'<c8'", "'<f16'", "'<M8[ns]'", "'|S4'", "'<U4'", "'|V12'", "'f4'", "'<f3'", "'<i16'", "''",
        "'<f99999999999999999999'", "[('x', '|O')]", "3", "[('x',)]", "[]", "[('x', '<f4', (9999999,))]",
        "[('x', '|V1152921504606846976')]", "[('x', '<f8', (18446744073709551615, 2))]"}) {
    CHECK_REFUSED(npy(header(type, "(2, 3)"), std::string(96, '\0')), "a.npy", ", expected ");
  }
  std::string nested = "'<f4'";
  for (int i = 0; i < 2000; ++i) nested = "[('a', " + nested + ")]";
  CHECK_REFUSED(npy(header(nested, "(2,)"), std::string(96, '\0'), 2), "a.npy", "a header with");
  const std::string many = "[" + repeated("('a', '|i1'), ", 2000) + "]";
  CHECK_REFUSED(npy(header(many, "(2,)"), std::string(4000, '\0'), 2), "a.npy", "more than 1000 columns");
}

void damaged_headers_are_refused() {
  const std::string body(24, '\0');
  for (const char* text : {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False}",
                           "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
                           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x",
                           "{'descr': '<f4, 'fortran_order': False, 'shape': (2, 3)}", "{'descr': '\\"}) {
    CHECK_REFUSED(npy(text, body), "a.npy", "NumPy array; save it again");
  }
  CHECK_REFUSED("NUMPY", "a.npy", "begins with 'NUMPY', expected '?NUMPY'");
  CHECK_REFUSED(npy(header("'<f4'", "(2, 3)"), body, 4), "a.npy", "version 4.0, expected 1.0, 2.0 or 3.0");
  const Cloud longer = read_bytes(npy(header("'<f4'", "(2, 3)"), body + "xy"), "a.npy");
  CHECK(has_note(longer, "2 bytes after the array were left out"));
}

}  // namespace

int main() {
  every_type_and_order_comes_back();
  half_floats_are_exact();
  more_columns_are_named_by_position_or_by_the_user();
  structured_arrays_name_their_columns();
  other_shapes_and_types_are_refused();
  damaged_headers_are_refused();
  const std::string plain = npy(header("'<f4'", "(2, 3)"), float32_bytes(kPoints));
  check_cuts(plain, "a.npy");
  check_damage(plain, "a.npy", 3000);
  check_damage(
      npy(header("[('pos', '<f4', (3,)), ('w', [('a', '|u1'), ('b', '>i2')])]", "(2,)"), std::string(30, '\1')),
      "a.npy", 4000);
  return check_report();
}
