// From columns to a cloud: roles, float32, colors, points without a return, faces.
#include "cloud_checks.h"
#include "clouds/finish.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

const double kNan = std::nan("");

Parsed parsed(std::vector<Column> columns, std::vector<std::int64_t> faces = {}) {
  return {"made up", std::move(columns), std::move(faces), {}};
}

Parsed points(const Numbers& x, const Numbers& y, const Numbers& z, std::vector<std::int64_t> faces = {}) {
  return parsed({{"x", 0, x}, {"y", 0, y}, {"z", 0, z}}, std::move(faces));
}

std::string error_of_finish(const Parsed& content, bool strict = false) {
  return error_of([&] { finish(content, strict); });
}

void columns_come_by_name_in_the_order_of_the_file() {
  const Cloud cloud =
      finish(parsed({{"b", 0, {1, 2}}, {"Z", 0, {3, 6}}, {"", 0, {7, 8}}, {"X", 0, {1, 4}}, {"Y", 0, {2, 5}}}), true);
  CHECK((cloud.points == Floats{1, 2, 3, 4, 5, 6}));
  CHECK(cloud.fields.size() == 2 && cloud.fields[0].name == "b" && cloud.fields[1].values == (Numbers{7, 8}));
  CHECK((cloud.columns == Names{"b", "Z", "?", "X", "Y"}));
  CHECK_EQUAL(cloud.format, "made up");
  CHECK(cloud.kept.empty() && cloud.dropped == 0 && cloud.origin == (std::array<double, 3>{}));
  CHECK_ERROR(error_of_finish(parsed({{"x", 0, {1}}, {"y", 0, {1}}})), "the columns 'x', 'y', expected x, y and z");
  CHECK_ERROR(error_of_finish(parsed({})), "no columns of numbers, expected x, y and z");
  CHECK_ERROR(error_of_finish(points({}, {}, {})), "0 points, expected at least 1");
}

void a_far_cloud_keeps_its_shape() {
  const Cloud far = finish(points({500000.25, 500001.5}, {5400000.5, 5400002.75}, {300.125, 301.5}), false);
  CHECK((far.points == Floats{0.25f, 0.5f, 0.125f, 1.5f, 2.75f, 1.5f}));
  CHECK((far.origin == std::array<double, 3>{500000, 5400000, 300}));
  const Cloud near = finish(points({1, 1.1}, {2, 2}, {3, 3}), false);
  CHECK((near.points == Floats{1, 2, 3, 1.1f, 2, 3} && near.origin == std::array<double, 3>{}));
  const Cloud alone = finish(points({5e9 + 1}, {0}, {0}), false);
  CHECK((alone.points == Floats{static_cast<float>(5e9 + 1), 0, 0}));
  CHECK_ERROR(error_of_finish(points({1e39}, {0}, {0})), "coordinates too large for float32");
  CHECK_ERROR(error_of_finish(points({3e38, -3e38}, {0, 0}, {0, 0})), "coordinates too large for float32");
}

void points_without_a_return_are_dropped_from_every_column() {
  Parsed content = points({1, kNan, 4, 7}, {2, 0, 5, HUGE_VAL}, {3, 0, 6, 9});
  content.columns.push_back({"label", 8, {10, 11, 12, 13}});
  content.columns.push_back({"time", 0, {kNan, 1, 2, 3}});
  const Cloud cloud = finish(content, false);
  CHECK((cloud.points == Floats{1, 2, 3, 4, 5, 6}));
  CHECK((cloud.kept == std::vector<std::size_t>{0, 2}));
  CHECK_EQUAL(cloud.dropped, std::size_t{2});
  CHECK((field(cloud, "label") == Numbers{10, 12}));
  CHECK(std::isnan(field(cloud, "time")[0]));
  CHECK_ERROR(error_of_finish(content, true),
              "2 of 4 points with a NaN or infinite coordinate, the first is point 1 (counted");
  CHECK_ERROR(error_of_finish(points({kNan}, {0}, {0})),
              "no point with finite coordinates among 1, expected at least 1");
}

Floats colors(unsigned bits, const Numbers& red, const Numbers& green, const Numbers& blue) {
  Parsed content = points(red, red, red);
  content.columns.push_back({"red", bits, red});
  content.columns.push_back({"green", bits, green});
  content.columns.push_back({"blue", bits, blue});
  const Cloud cloud = finish(content, false);
  CHECK_EQUAL(cloud.fields.size(), std::size_t{cloud.colors.empty() ? 3u : 0u});
  CHECK_EQUAL(has_note(cloud, "hold numbers that are not colors"), cloud.colors.empty());
  return cloud.colors;
}

void colors_are_scaled_by_their_type_and_values() {
  CHECK((colors(8, {255, 1}, {0, 1}, {51, 1}) == Floats{1, 0, 0.2f, 1 / 255.0f, 1 / 255.0f, 1 / 255.0f}));
  CHECK((colors(8, {1}, {0}, {1}) == Floats{1 / 255.0f, 0, 1 / 255.0f}));
  CHECK((colors(16, {65535}, {0}, {13107}) == Floats{1, 0, 0.2f}));
  CHECK((colors(16, {255}, {0}, {51}) == Floats{1, 0, 0.2f}));
  CHECK((colors(0, {255}, {0}, {51}) == Floats{1, 0, 0.2f}));
  CHECK((colors(0, {0.5}, {0}, {1}) == Floats{0.5f, 0, 1}));
  CHECK((colors(0, {1}, {0}, {1}) == Floats{1, 0, 1}));
  CHECK(colors(0, {-0.5}, {0}, {1}).empty());
  CHECK(colors(0, {1.5}, {0}, {1}).empty());
  CHECK(colors(0, {70000}, {0}, {1}).empty());
}

void faces_must_fit_the_points() {
  const Numbers x = {0, 1, 0}, y = {0, 0, 1}, z = {0, 0, 0};
  CHECK((finish(points(x, y, z, {0, 1, 2}), false).faces == std::vector<std::int64_t>{0, 1, 2}));
  CHECK_ERROR(error_of_finish(points(x, y, z, {0, 1, 2, 0, 1, 3})), "triangle 1: the vertex 3, expected 0 to 2");
  CHECK_ERROR(error_of_finish(points(x, y, z, {0, 1, -1})), "triangle 0: the vertex -1");
  CHECK_ERROR(error_of_finish(points(x, y, z, {0, 1, 1})), "1 triangles without an area");
  CHECK_ERROR(error_of_finish(points({0, 1, kNan}, y, z, {0, 1, 0})), "expected none in a mesh");
}

}  // namespace

int main() {
  columns_come_by_name_in_the_order_of_the_file();
  a_far_cloud_keeps_its_shape();
  points_without_a_return_are_dropped_from_every_column();
  colors_are_scaled_by_their_type_and_values();
  faces_must_fit_the_points();
  return check_report();
}
