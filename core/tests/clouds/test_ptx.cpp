// PTX: scans of Leica with their poses.
#include "cloud_checks.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

const std::string kPose = "0 0 0\n1 0 0\n0 1 0\n0 0 1\n";
const std::string kIdentity = "1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 1\n";
// A quarter turn about z, then a shift: (x, y, z) -> (10 - y, 20 + x, 30 + z).
const std::string kTurned = "0 1 0 0\n-1 0 0 0\n0 0 1 0\n10 20 30 1\n";

std::string scan(const std::string& size, const std::string& matrix, const std::string& points) {
  return size + "\n" + kPose + matrix + points;
}

void each_scan_is_moved_by_its_matrix() {
  const std::string file =
      scan("2\n1", kIdentity, "1 2 3 0.5\n4 5 6 0.25\n") + scan("1\n2", kTurned, "1 2 3 0.75\n0 0 1 1\n");
  const Cloud cloud = CHECK_POINTS(file, "a.ptx", {1, 2, 3, 4, 5, 6, 8, 21, 33, 10, 20, 31});
  CHECK((field(cloud, "intensity") == Numbers{0.5, 0.25, 0.75, 1}));
  CHECK_EQUAL(cloud.format, "PTX, 2 scans");
}

void points_without_a_return_are_dropped() {
  const std::string file = scan("3\n1", kTurned, "0 0 0 0.5 0 0 0\r\n1 2 3 0.5 255 0 51\r\n0.0 -0 0.000 0.5 0 0 0\r\n");
  const Cloud cloud = CHECK_POINTS(file, "a.ptx", {8, 21, 33});
  CHECK(cloud.dropped == 2 && cloud.kept == (std::vector<std::size_t>{1}));
  CHECK((cloud.colors == Floats{1, 0, 0.2f}));
}

void other_files_are_refused() {
  CHECK_REFUSED("x\n", "a.ptx", "line 1: 'x', expected the number of columns of a scan");
  CHECK_REFUSED("2\n-1\n", "a.ptx", "line 2: '-1', expected the number of rows");
  CHECK_REFUSED("2\n", "a.ptx", "the end of the file, expected the number of rows");
  CHECK_REFUSED(scan("1\n1", kIdentity, "1 2 3\n"), "a.ptx", "line 11: 3 numbers in '1 2 3', expected 4");
  CHECK_REFUSED(scan("1\n1", kIdentity, "1 2 3 4 5\n"), "a.ptx", "line 11: 5 numbers in '1 2 3 4 5', expected 4 or 7");
  CHECK_REFUSED(scan("2\n1", kIdentity, "1 2 3 4\n1 2 3 4 5 6 7\n"), "a.ptx", "line 12: 5 numbers");
  CHECK_REFUSED(scan("2\n1", kIdentity, "1 2 3 4\n1 2 three 4\n"), "a.ptx", "line 12, column 3: 'three'");
  CHECK_REFUSED(scan("2\n1", kIdentity, "1 2 3 4"), "a.ptx", "line 2: 1 points, expected 2; the file is cut short");
  CHECK_REFUSED(scan("2\n1", "1 0 0 10\n0 1 0 20\n0 0 1 30\n0 0 0 1\n", "1 2 3 4\n"), "a.ptx",
                "line 7: '1 0 0 10', expected a");
  CHECK_REFUSED(scan("0\n5", kIdentity, ""), "a.ptx", "0 points");
  for (const char* size :
       {"4294967296\n4294967296", "18446744073709551615\n2", "2\n18446744073709551615", "1000\n1000"}) {
    CHECK_REFUSED(scan(size, kIdentity, "1 2 3 4\n"), "a.ptx", "expected at most 2 points in the rest of the file");
  }
}

}  // namespace

int main() {
  each_scan_is_moved_by_its_matrix();
  points_without_a_return_are_dropped();
  other_files_are_refused();
  const std::string file = scan("2\n1", kTurned, "1 2 3 0.5\n4 5 6 0.25\n") + scan("1\n1", kIdentity, "1 2 3 0.75");
  check_damage(file, "a.ptx", 4000);
  for (std::size_t size = 0; size < file.size(); ++size) {
    // Without the second scan the file is whole; the last number may lose digits.
    const bool whole = size + 4 > file.size() - 1 || (size >= file.find("0.25") + 1 && size <= file.find("0.25") + 5);
    const std::string error = error_of(file.substr(0, size), "a.ptx");
    if (!whole) CHECK_ERROR(error, ", expected ");
  }
  return check_report();
}
