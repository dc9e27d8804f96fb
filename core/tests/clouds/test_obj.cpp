// OBJ files give every vertex once, in the order of the file, however the faces name them.
#include "cloud_checks.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

using Faces = std::vector<std::int64_t>;

const std::string kVertices = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n";
const Floats kPoints = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0};

void every_way_to_name_a_vertex_gives_the_same_face() {
  for (const char* face : {"f 1 2 3", "f 1/7 2/8 3/9", "f 1//7 2//8 3//9", "f 1/7/1 2/8/2 3/9/3", "f -4 -3 -2",
                           "f -4/-1/-1 -3/-1 -2//-1", "f\t1  2\t3 ", "fo 1 2 3", "f 1 2 3 # a comment",
                           "f 1 \\\n2 \\\n  3", "f 1 2\\\r\n3", "f 1 2 \\\n\\\n3", "  f 1 2 3"}) {
    const Cloud cloud = read_bytes(kVertices + face + "\n", "a.obj");
    if (!CHECK(cloud.points == kPoints && (cloud.faces == Faces{0, 1, 2}))) std::cerr << "  for " << face << "\n";
    CHECK(cloud.notes.empty());
  }
  CHECK((read_bytes(kVertices + "f 4 3 2 1\n", "a.obj").faces == Faces{3, 2, 1, 3, 1, 0}));
  CHECK((read_bytes("f 1 2 3\n" + kVertices + "f -1 -2 -3\nv 5 5 5\nf -1 1 2\n", "a.obj").faces ==
         Faces{0, 1, 2, 3, 2, 1, 4, 0, 1}));
  CHECK((read_bytes(kVertices + "f 1 2\nf 3\nf\nf 1 2 4", "a.obj").faces == Faces{0, 1, 3}));
}

// As written by Blender, MeshLab and CAD programs.
void other_statements_are_left_out() {
  const std::string file =
      "# Blender 4.0 C:\\scans\\\nmtllib C:\\materials\\\nmtllib missing.mtl\no chair\\\n" + kVertices +
      "vt 0.5 0.5\nvt 1\nvn 0 0 1\nvp 0.1 0.2\nusemtl wood\\\ns off\ng legs seat\nl 1 2 3\np 4\nf 1/1/1 2/1/1 3/1/1\n"
      "cstype bezier\ndeg 3\ncurv 0 1 1 2 3 4\nparm u 0 1\nend\n\n";
  const Cloud cloud = read_bytes(file, "a.obj");
  CHECK(cloud.points == kPoints && cloud.notes.empty());
  CHECK((cloud.faces == Faces{0, 1, 2}));
  CHECK(read_bytes("\xEF\xBB\xBF" + kVertices, "a.obj").faces.empty());
  const Cloud odd = read_bytes(kVertices + "vertex 1 2 3\nV 1 2 3\n", "a.obj");
  CHECK(odd.points == kPoints && has_note(odd, "2 lines of an unknown kind"));
  CHECK(has_note(odd, "the first is line 5: 'vertex'"));
}

void equal_and_unused_vertices_stay() {
  CHECK_POINTS("v 1 1 1\nv 1 1 1\nv 0 0 0\nv 7 7 7\nv 1 0 0\nvt 0 0\nvt 1 1\nf 3/1 5/1 1/2\nf 3/2 5/2 2/1\n", "a.obj",
               {1, 1, 1, 1, 1, 1, 0, 0, 0, 7, 7, 7, 1, 0, 0});
}

void colors_and_weights_of_vertices() {
  CHECK((read_bytes("v 1 2 3 1 0.5 0\n", "a.obj").colors == Floats{1, 0.5, 0}));
  CHECK((read_bytes("v 1 2 3 255 51 0\n", "a.obj").colors == Floats{1, 0.2f, 0}));
  CHECK((read_bytes("v 1 2 3 1 0.5 0 1\n", "a.obj").colors == Floats{1, 0.5, 0}));
  CHECK((read_bytes("v 1 2 3 0.5\n", "a.obj").columns == Names{"x", "y", "z", "w"}));
  for (const char* mixed : {"v 1 2 3 1 0.5 0\nv 4 5 6\nv 7 8 9 1 1 1\n", "v 1 2 3\nv 4 5 6 1 1 1\nv 7 8 9 1 1 1\n"}) {
    const Cloud cloud = CHECK_POINTS(mixed, "a.obj", {1, 2, 3, 4, 5, 6, 7, 8, 9});
    CHECK(cloud.colors.empty() && cloud.notes.size() == 1 && has_note(cloud, "line 2: "));
  }
}

void other_files_are_refused() {
  const auto refused = [](const std::string& bytes) { return error_of(bytes, "a.obj"); };
  CHECK_ERROR(refused("# nothing\n"), "no vertices, expected lines 'v x y z'");
  CHECK_ERROR(refused(std::string("\x4c\x01\x00\x00", 4)), "no vertices");
  CHECK_ERROR(refused("v 1 2\n"), "line 1: 2 numbers in '1 2', expected at least 3 for a vertex");
  CHECK_ERROR(refused("v 1 2 z\n"), "line 1, column 4: 'z', expected a number");
  CHECK_ERROR(refused("v 1 2 3 4 5 6 7 8\n"), "line 1, column 9: '8', expected the end of a vertex");
  CHECK_ERROR(refused(kVertices + "f 1 2 0\n"), "line 5: the corner '0', expected a vertex, counted from 1");
  CHECK_ERROR(refused(kVertices + "f 1 2 /3\n"), "the corner '/3'");
  CHECK_ERROR(refused(kVertices + "f 1 2 1.5\n"), "the corner '1.5'");
  CHECK_ERROR(refused(kVertices + "f 1 2 -5\n"), "line 5: the corner '-5', expected -1 to -4");
  CHECK_ERROR(refused(kVertices + "f 1 2 -99999999999999999999\n"), "the corner '-99999999999999999999'");
  CHECK_ERROR(refused(kVertices + "\nf 1 2 5\nf 1 2 3"), "line 6: the vertex 5, expected 1 to 4");
  CHECK_ERROR(refused(kVertices + "f 1 2 18446744073709551615\n"), "the vertex 18446744073709551615, expected 1 to 4");
}

void damaged_files_give_a_cloud_or_a_sentence() {
  check_damage("# a\nmtllib a.mtl\n" + kVertices + "vt 1 2\nf 1/1/1 2//2 \\\n 3 -1\nf 4 3 2\n", "a.obj");
  check_damage("v 1 2 3 0.5 0.5 0.5\nv 4 5 6 1 1 1\nv -1e3 +.5 0 0 0 0\nf -1 -2 -3", "a.obj");
}

void statements_over_many_lines_take_linear_time() {
  std::string face = "f", lines = "f";
  constexpr int corners = kSmallMemory ? 30000 : 300000;
  for (int i = 0; i < corners; ++i) {
    face += " " + std::to_string(i % 4 + 1);
    lines += " " + std::to_string(i % 4 + 1) + " \\\n";
  }
  CHECK_EQUAL(read_bytes(kVertices + face + "\n", "a.obj").faces.size(), 3u * (corners - 2));
  CHECK_EQUAL(read_bytes(kVertices + lines, "a.obj").faces.size(), 3u * (corners - 2));
}

}  // namespace

int main() {
  every_way_to_name_a_vertex_gives_the_same_face();
  other_statements_are_left_out();
  equal_and_unused_vertices_stay();
  colors_and_weights_of_vertices();
  other_files_are_refused();
  damaged_files_give_a_cloud_or_a_sentence();
  statements_over_many_lines_take_linear_time();
  return check_report();
}
