// STL files give three points per triangle, in the order of the file, whether they are text or binary.
#include "cloud_checks.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

using Faces = std::vector<std::int64_t>;

const Floats kPoints = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1.5, -2};
const Faces kFaces = {0, 1, 2, 3, 4, 5};

std::string binary(const std::string& head, std::int64_t triangles = 2) {
  BinaryWriter writer;
  writer.text(head + std::string(80 - head.size(), '\0')).integer(4, triangles);
  for (std::size_t i = 0; i < kPoints.size(); i += 9) {
    writer.text(float32_bytes({0, 0, std::nanf("")}));
    for (std::size_t j = i; j < i + 9; ++j) writer.f32(kPoints[j]);
    writer.integer(2, 0x7FFF);
  }
  return writer.bytes();
}

// `gap`: what separates the lines.
std::string text(const std::string& gap, const std::string& name = "a part") {
  std::string file = "solid " + name + gap;
  for (std::size_t i = 0; i < kPoints.size(); i += 9) {
    file += "  facet normal 0 0 -1.#IND" + gap + "outer loop" + gap;
    for (std::size_t j = i; j < i + 9; j += 3) {
      file += "\tvertex";
      for (std::size_t k = j; k < j + 3; ++k) file += "  " + std::to_string(kPoints[k]);
      file += gap;
    }
    file += "endloop" + gap + "endfacet" + gap;
  }
  return file + "endsolid " + name + gap;
}

std::string upper(std::string low) {
  for (char& c : low) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return low;
}

void every_way_to_write_gives_the_same_triangles() {
  for (const std::string& file :
       {binary("made up"), binary("solid but binary"), binary("solid facet"), binary("") + std::string(7, '\0'),
        text("\n"), text("\r\n"), text("\r"), text("\n\n    "), upper(text("\n")), text("\n", ""),
        text("\n", "vertex facet x"), "\n " + text("\n"), "\xEF\xBB\xBF" + text("\n"), text("\n").substr(0, text("\n").size() - 8)}) {
    const Cloud cloud = CHECK_POINTS(file, "a.stl", {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1.5, -2});
    CHECK(cloud.faces == kFaces && cloud.notes.empty());
    CHECK((cloud.columns == Names{"x", "y", "z"}));
  }
  CHECK(has_note(read_bytes(binary("") + "more", "a.stl"), "4 bytes more than it declares"));
}

void several_solids_follow_each_other() {
  const Cloud cloud = read_bytes(text("\n", "one") + text("\r\n", "two"), "a.stl");
  CHECK_EQUAL(cloud.size(), 12u);
  CHECK((cloud.faces == Faces{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

void polygons_and_single_lines() {
  const std::string square = "vertex 0 0 0 vertex 1 0 0 vertex 1 1 0 vertex 0 1 0";
  const Cloud cloud =
      read_bytes("solid\nfacet normal 0 0 1 outer loop " + square + " endloop endfacet\nendsolid", "a.stl");
  CHECK((cloud.size() == 4 && cloud.faces == Faces{0, 1, 2, 0, 2, 3}));
}

void other_files_are_refused() {
  const auto refused = [](const std::string& bytes) { return error_of(bytes, "a.stl"); };
  CHECK_ERROR(refused("something"), "9 bytes, expected 'solid' or at least 84 bytes as in STL files");
  CHECK_ERROR(refused("# made up\n" + std::string(100, 'v')), "begins with '# made up?vvv");
  CHECK_ERROR(refused(binary("", 3)), "the file is cut short after 2 triangles, expected 3");
  CHECK_ERROR(refused(binary("solid", 4294967295)), "the file is cut short after 2 triangles, expected 4294967295");
  CHECK_ERROR(refused(binary("", 0).substr(0, 84)), "0 points");
  CHECK_ERROR(refused("solid a\nendsolid a\n"), "0 points");
  CHECK_ERROR(refused("solid a\nfacet normal 0 0 1\n"), "the file is cut short: no 'endsolid' after 0 triangles");
  CHECK_ERROR(refused("solid a\nvertex 1 2\n"), "line 2: '' as z of a vertex, expected a number");
  CHECK_ERROR(refused("solid a\nvertex 1 b 2\n"), "line 2: 'b' as y of a vertex, expected a number");
  CHECK_ERROR(refused("solid a\nvertex 1 2 3 4\n"), "line 2: '4', expected a word of STL");
  CHECK_ERROR(refused("solid a\nouter loop\nvertex 1 2 3\nvertex 1 2 4\nendloop\n"), "line 5: a facet of 2 corners");
  CHECK_ERROR(refused("solid a\nendloop\n"), "a facet of 0 corners");
}

void damaged_files_give_a_cloud_or_a_sentence() {
  check_cuts(binary("made up"), "a.stl");
  check_cuts(text("\n"), "a.stl", 8);  // the name at the end
  check_damage(binary("solid"), "a.stl");
  check_damage(text("\n"), "a.stl");
  check_damage(text("\r\n") + text("\n"), "a.stl");
}

}  // namespace

int main() {
  every_way_to_write_gives_the_same_triangles();
  several_solids_follow_each_other();
  polygons_and_single_lines();
  other_files_are_refused();
  damaged_files_give_a_cloud_or_a_sentence();
  return check_report();
}
