// Raw float32: the columns come from --columns or the name, or the file is refused.
#include "cloud_checks.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

const Floats kNumbers = {1, 2, 3, 0.5f, 4, 5, 6, 0.25f, 7, 8, 9, 0.75f};  // 48 bytes: 4 points of 3 or 3 points of 4

void the_name_tells_the_columns() {
  const std::string bytes = float32_bytes(kNumbers);
  for (const char* name : {"000123.bin", "0000000123.BIN", "velodyne/000000.bin"}) {
    const Cloud kitti = CHECK_POINTS(bytes, name, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    CHECK((field(kitti, "intensity") == Numbers{0.5, 0.25, 0.75}));
    CHECK(has_note(kitti, "read as KITTI because of its name"));
  }
  const Cloud nuscenes = CHECK_POINTS(float32_bytes({1, 2, 3, 40, 7, 4, 5, 6, 50, 8, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5}),
                                      "n015-2018__LIDAR_TOP__153.pcd.bin", {1, 2, 3, 4, 5, 6, 1, 2, 3, 1, 2, 3});
  CHECK((field(nuscenes, "ring") == Numbers{7, 8, 5, 5}));
  for (const char* name : {"a.f32", "a.raw", "a.F32"}) CHECK_POINTS(bytes, name, (kNumbers));
}

// 6 columns would be read as 3 without an error.
void the_size_tells_nothing() {
  for (const char* name : {"a.bin", "12345.bin", "scan000123.bin"}) {
    CHECK_REFUSED(float32_bytes({1, 2, 3, 4, 5, 6}), name, "how many float32 a point has, expected their names");
    CHECK_REFUSED(float32_bytes({1, 2, 3, 4, 5, 6, 7}), name, "--columns x,y,z,intensity");
  }
  CHECK_REFUSED("1 2 3\n4 5 6\n7 8\n", "000001.bin", "bytes that are not a float32 coordinate");
}

void given_columns_win() {
  for (const char* name : {"a.bin", "000123.bin", "a.f32", "a.pcd.bin"}) {
    const Cloud cloud = CHECK_POINTS_WITH((ReadOptions{{"gray", "x", "z", "-", "y", "w"}, false}),
                                          float32_bytes(kNumbers), name, {2, 4, 3, 0.25f, 9, 7});
    CHECK((field(cloud, "gray") == Numbers{1, 6}));
    CHECK(cloud.notes.empty());
  }
  CHECK_ERROR(error_of(float32_bytes(kNumbers), "a.bin", {{"x", "y", "z", "r", "g"}, false}),
              "48 bytes, expected a multiple of 20 (5 float32 per point)");
  CHECK_ERROR(error_of(float32_bytes(kNumbers), "a.bin", {{"x", "y", "w"}, false}), "the columns 'x', 'y', 'w'");
}

void every_float_comes_back() {
  const Floats numbers = {0, -0.0f, 1.5f, 3.4e38f, 1e-45f, -7};
  CHECK_POINTS(float32_bytes(numbers), "a.f32", (numbers));
  const Cloud cloud = CHECK_POINTS(float32_bytes({1, 2, std::nanf(""), 4, 5, 6, HUGE_VALF, 0, 0}), "a.f32", {4, 5, 6});
  CHECK_EQUAL(cloud.dropped, std::size_t{2});
  CHECK_REFUSED(float32_bytes({1, 2, 3, 4}), "a.f32", "16 bytes, expected a multiple of 12");
  CHECK_REFUSED(float32_bytes({1, 2, 3}), "000001.bin",
                "12 bytes, read as KITTI because of its name, expected a multiple of 16");
}

}  // namespace

int main() {
  the_name_tells_the_columns();
  the_size_tells_nothing();
  given_columns_win();
  every_float_comes_back();
  for (const char* name : {"a.bin", "a.f32", "000001.bin", "a.pcd.bin"})
    check_damage(float32_bytes(kNumbers), name, 1000);
  return check_report();
}
