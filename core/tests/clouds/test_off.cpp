// OFF files give the vertices in the order of the file, and faces cut into triangles.
#include "cloud_checks.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

using Faces = std::vector<std::int64_t>;

const std::string kVertices = "0 0 0\n1 0 0\n1 1 0\n0 1 0\n";
const std::string kFaces = "4 0 1 2 3\n3 3 1 0\n";
const Floats kPoints = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0};

void every_way_to_begin_gives_the_same_mesh() {
  for (const std::string start : {"OFF\n4 2 0\n", "OFF4 2 0\n", "OFF 4 2 0\n", "OFF\n4 2\n", "off\n4 2 0\n",
                                  "4 2 0\n", "# a mesh\n\nOFF # its keyword\n\n# its counts\n4 2 5 # edges\n\n",
                                  "\xEF\xBB\xBFOFF\r\n4 2 0\r\n", "  OFF  \n  4\t2  0\n", "OFF\r4 2 0\r"}) {
    const Cloud cloud = read_bytes(start + kVertices + "\n# faces\n" + kFaces, "a.off");
    CHECK(cloud.points == kPoints && cloud.notes.empty());
    CHECK((cloud.faces == Faces{0, 1, 2, 0, 2, 3, 3, 1, 0}));
  }
  CHECK(read_bytes("OFF\n4 0 0\n" + kVertices, "a.off").faces.empty());
  const Cloud longer = read_bytes("OFF\n4 1 0\n" + kVertices + kFaces, "a.off");
  CHECK(longer.faces.size() == 6 && has_note(longer, "8 bytes more than it declares"));
}

void colors_of_faces_and_faces_of_two_corners_are_left_out() {
  const std::string faces = "4 0 1 2 3 255 0 0\n3 0 1 2 0.1 0.2 0.3 1\n3 1 2 3 7\n2 0 1\n1 0\n0\n";
  const Cloud cloud = read_bytes("OFF\n4 6 0\n" + kVertices + faces, "a.off");
  CHECK((cloud.faces == Faces{0, 1, 2, 0, 2, 3, 0, 1, 2, 1, 2, 3}));
}

void every_kind_of_vertex() {
  const auto one = [](const std::string& keyword, const std::string& vertex) {
    return CHECK_POINTS(keyword + "\n1 0 0\n1 2 3 " + vertex + "\n", "a.off", {1, 2, 3});
  };
  CHECK((one("COFF", "255 0 51").colors == Floats{1, 0, 0.2f}));
  CHECK((one("COFF", "255 0 51 255").colors == Floats{1, 0, 0.2f}));
  CHECK((one("COFF", "1.0 0.5 0.25 1.0").colors == Floats{1, 0.5, 0.25}));
  CHECK((one("NOFF", "0 0 -1").columns == Names{"x", "y", "z", "nx", "ny", "nz"}));
  const Cloud both = one("CNOFF", "0 0 -1 255 0 51 0");
  CHECK((both.colors == Floats{1, 0, 0.2f} && field(both, "nz") == Numbers{-1} && field(both, "alpha") == Numbers{0}));
  const Cloud all = one("STCNOFF", "0 0 -1 255 0 51 0.5 0.75");
  CHECK((all.colors == Floats{1, 0, 0.2f} && field(all, "s") == Numbers{0.5} && field(all, "t") == Numbers{0.75}));
  CHECK((field(one("STOFF", "0.5 0.75"), "t") == Numbers{0.75}));
  // Without a keyword for them, the numbers tell, as in text.
  for (const char* others : {"255 0 51", "255 0 51 255", "1.0 0 0.2"}) {
    const Cloud guessed = one("OFF", others);
    CHECK((guessed.colors == Floats{1, 0, 0.2f} && has_note(guessed, "are read as colors")));
    CHECK(!has_note(guessed, "--columns"));
  }
  CHECK((one("OFF", "0 0 -1").columns == Names{"x", "y", "z", "nx", "ny", "nz"}));
  for (const char* others : {"0 0 1", "0 0 -9"}) {
    CHECK((one("OFF", others).columns == Names{"x", "y", "z", "?", "?", "?"}));
  }
}

void other_files_are_refused() {
  const auto refused = [](const std::string& bytes) { return error_of(bytes, "a.off"); };
  CHECK_ERROR(refused("# nothing\n"), "a file without content, expected OFF");
  CHECK_ERROR(refused("solid a\n"), "begins with 'solid a', expected OFF; check that its suffix is right");
  CHECK_ERROR(refused("4OFF\n1 0 0\n1 2 3 4\n"), "'4OFF', points in 4 or more dimensions, expected OFF with x");
  CHECK_ERROR(refused("nOFF\n5\n1 0 0\n1 2 3 4 5\n"), "'nOFF', points in 4 or more dimensions");
  CHECK_ERROR(refused("STCN4nOFF\n5\n"), "points in 4 or more dimensions");
  CHECK_ERROR(refused("OFF BINARY\n" + std::string(20, '\0')), "a binary OFF file, expected OFF as text");
  CHECK_ERROR(refused("OFF"), "the end of the file, expected the numbers of vertices, faces and edges");
  for (const char* counts : {"1", "-1 0 0", "1 x 0", "1 0 0 0", "1.5 0 0", "99999999999999999999 0 0"}) {
    CHECK_ERROR(refused(std::string("OFF\n") + counts + "\n1 2 3\n"), "line 2: '" + std::string(counts) + "'");
  }
  for (const char* count : {"5", "4294967296", "6148914691236517206", "18446744073709551615"}) {
    CHECK_ERROR(refused(std::string("OFF\n") + count + " 0 0\n" + kVertices),
                std::string("the file is cut short after 4 vertices, expected ") + count);
    CHECK_ERROR(refused(std::string("OFF\n4 ") + count + " 0\n" + kVertices + kFaces),
                std::string("the file is cut short after 2 faces, expected ") + count);
    CHECK_ERROR(refused("OFF\n4 1 0\n" + kVertices + count + " 0 1 2 3\n"), "4 corners in '");
  }
  CHECK_ERROR(refused("OFF\n0 0 0\n"), "line 2: 0 points, expected at least 1");
  CHECK_ERROR(refused("OFF\n2 0 0\n1 2 3\n4 5\n"), "line 4: 2 numbers in '4 5', expected 3 as in the first vertex");
  CHECK_ERROR(refused("OFF\n2 1 0\n1 2 3\n3 0 1 2\n"), "line 4: 4 numbers in '3 0 1 2', expected 3");
  CHECK_ERROR(refused("OFF\n1 0 0\n1 2\n"), "line 3: 2 numbers in '1 2', expected at least 3 for a vertex");
  CHECK_ERROR(refused("COFF\n1 0 0\n1 2 3\n"), "line 3: 3 numbers in '1 2 3', expected at least 6 for a vertex");
  CHECK_EQUAL(error_of("OFF\n1 0 0\n" + repeated("1 ", 1000) + "\n", "a.off"), "");
  CHECK_ERROR(refused("OFF\n1 0 0\n" + repeated("1 ", 1001) + "\n"),
              "line 3: more than 1000 numbers, expected one vertex per line; check the ends of the lines");
  CHECK_ERROR(refused("OFF\n2 0 0\n1 2 3\n" + repeated("1 ", 3000) + "\n"), "line 4: 3000 numbers in '1 1 1");
  CHECK_ERROR(refused("OFF\n1 0 0\n1 2 z\n"), "line 3, column 3: 'z', expected a number");
  for (const char* corner : {"-1", "1.5", "x", "9999999999999999999"}) {
    CHECK_ERROR(refused("OFF\n4 1 0\n" + kVertices + "3 0 1 " + corner + "\n"), "expected the index of a vertex");
  }
  CHECK_ERROR(refused("OFF\n4 1 0\n" + kVertices + "3 0 1 4\n"), "triangle 0: the vertex 4, expected 0 to 3");
}

void damaged_files_give_a_cloud_or_a_sentence() {
  for (const char* keyword : {"OFF", "COFF", "STCNOFF"}) {
    std::string file = std::string(keyword) + "\n4 2 0\n";
    for (int i = 0; i < 4; ++i) file += std::to_string(i) + " 0.5 " + std::to_string(i * i) + " 0 0 1 255 0 7 1 0 0\n";
    check_damage(file + kFaces, "a.off");
  }
  check_cuts("OFF\n4 2 0\n" + kVertices + kFaces, "a.off", 1);
}

void a_polygon_of_many_corners_is_cut_in_linear_time() {
  constexpr int corners = kSmallMemory ? 30000 : 300000;
  std::string face = std::to_string(corners);
  for (int i = 0; i < corners; ++i) face += " " + std::to_string(i % 4);
  CHECK_EQUAL(read_bytes("OFF\n4 1 0\n" + kVertices + face + "\n", "a.off").faces.size(), 3u * (corners - 2));
}

}  // namespace

int main() {
  every_way_to_begin_gives_the_same_mesh();
  colors_of_faces_and_faces_of_two_corners_are_left_out();
  every_kind_of_vertex();
  other_files_are_refused();
  damaged_files_give_a_cloud_or_a_sentence();
  a_polygon_of_many_corners_is_cut_in_linear_time();
  return check_report();
}
