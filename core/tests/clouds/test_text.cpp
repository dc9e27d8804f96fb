// Clouds in text files: every way in which programs write them gives the same points; what is ambiguous is refused.
#include <cstdio>

#include "cloud_checks.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

const Floats kPoints = {0, 1.5f, -2, 1e-3f, 0.25f, 3e4f};

void all_ways_to_write_a_text_give_the_same_points() {
  for (const char* text : {
           "0 1.5 -2\n1e-3 0.25 3e4\n",
           "0 1.5 -2\n1e-3 0.25 3e4",
           "0\t1.5\t-2\r\n1E-03\t.25\t+30000.\r\n",
           "0 1.5 -2\r1e-3 0.25 3e4\r",
           "0,1.5,-2\n0.001,0.25,3e+4\n",
           "0, 1.5, -2\n 0.001 ,\t0.25 , 3e4 ,\n",
           "0,1.5,-2,\n0.001,0.25,3e4,\n",
           "0;1.5;-2\n0.001;0.25;3e4;\n",
           "0;1,5;-2\n0,001;0,25;3e4\n",
           "0;1,5;-2,0;\r\n0,001;0,25;3e4;\r\n",
           "0 1,5 -2\n0,001 0,25 3e4\n",
           "0\t1,5\t-2\n0,001\t0,25\t3e4\n",
           "2\n0 1.5 -2\n1e-3 0.25 3e4\n",
           "  2  \r\n0 1.5 -2 17\r\n1e-3 0.25 3e4 12\r\n",
           "1\n0 1.5 -2\n1e-3 0.25 3e4\n",
           "1\n0 1.5 -2\n1\n1e-3 0.25 3e4\n",
           "# a comment, 1 2 3\n\n// another\n0 1.5 -2 # here\n   \n1e-3 0.25 3e4// there\n#",
           "% a comment\n0 1.5 -2\n% x\n  % y\n1e-3 0.25 3e4\n",
           "\xEF\xBB\xBF"
           "0 1.5 -2\n1e-3 0.25 3e4\n",
           "x y z\n0 1.5 -2\n1e-3 0.25 3e4\n",
           "2\nx y z\n0 1.5 -2\n1e-3 0.25 3e4\n",
           "x y z\n2\n0 1.5 -2\n1e-3 0.25 3e4\n",
           "//X Y Z\n2\n0 1.5 -2\n1e-3 0.25 3e4\n",
           "\"Z\",\"label\",\"X\",\"Y\"\n-2,chair,\"0\",1.5\n3e4,,0.001,0.25\n",
           "x,y,z,label\n0,1.5,-2,\n0.001,0.25,3e4,chair\n",
           "x,y,z,label\n0,1.5,-2,\"a, b\"\n0.001,0.25,3e4,\n",
           ",x,y,z\n0,0,1.5,-2\n1,0.001,0.25,3e4\n",
           "# id id time x y z\n1 7 0.5 0 1.5 -2\n2 7 0.6 1e-3 0.25 3e4\n",
           "# columns: id x y z\n1 0 1.5 -2\n2 1e-3 0.25 3e4\n",
           "# written for Xavier, by Y\n# a; z; y; x\n1 -2 1.5 0\n2 3e4 0.25 1e-3\n",
           "% x y z intensity\n0 1.5 -2 7\n1e-3 0.25 3e4 8\n",
           "X [m] Y [m] Z [m] R G B\n0 1.5 -2 1 2 3\n1e-3 0.25 3e4 4 5 6\n",
           "Y (US survey ft) X (ft) Z (ft)\n1.5 0 -2\n0.25 1e-3 3e4\n",
           "\"X [m]\";\"Y [m]\";\"Z [m]\"\n0;1.5;-2\n0.001;0.25;3e4\n",
           "\"Intensity\",\"Points:0\",\"Points:1\",\"Points:2\"\n9,0,1.5,-2\n8,0.001,0.25,3e4\n",
           "id,px,py,pz\n1,0,1.5,-2\n2,0.001,0.25,3e4\n",
           "0 1.5 -2 chair\n1e-3 0.25 3e4 table\n",
           "0 1.5 -2 nan inf\n1e-3 0.25 3e4 1 1.#QNAN\n",
       }) {
    CHECK_POINTS(text, "a.txt", (kPoints));
  }
}

void fields_keep_their_names() {
  const Cloud named = CHECK_POINTS("id,px,py,pz,Label\n1,4,5,6,wall\n2,7,8,9,floor\n", "a.csv", {4, 5, 6, 7, 8, 9});
  CHECK((field(named, "id") == Numbers{1, 2}));
  CHECK((named.columns == Names{"id", "px", "py", "pz"}));
  CHECK(has_note(named, "the column 'Label' holds text and was left out"));
  CHECK_EQUAL(named.format, "text, separated by commas");
  const Cloud nameless = CHECK_POINTS("1 2 3 9\n4 5 6 8\n", "a.xyz", {1, 2, 3, 4, 5, 6});
  CHECK((nameless.columns == Names{"x", "y", "z", "?"}));
  CHECK((field(nameless, "column 4") == Numbers{9, 8}));
  CHECK(nameless.notes.empty());
}

void columns_without_names_are_read_by_their_values() {
  const auto colors_of = [](const std::string& text, const std::string& name) { return read_bytes(text, name).colors; };
  CHECK((colors_of("1 2 3 255 0 51\n4 5 6 102 0 0\n", "a.txt") == Floats{1, 0, 0.2f, 0.4f, 0, 0}));
  CHECK((colors_of("1 2 3 0.5 0 0.25\n", "a.txt") == Floats{0.5f, 0, 0.25f}));
  CHECK(has_note(read_bytes("1 2 3 255 0 51\n", "a.txt"), "the columns 4 to 6 have no names and are read as colors"));
  for (const char* other : {"-1 0 0", "0 1 1", "256 0 0", "0.5 200 0", "nan 1 2", "1.5 2 2"}) {
    CHECK(colors_of(std::string("1 2 3 ") + other + "\n", "a.txt").empty());
  }
  const Cloud normals = read_bytes("1 2 3 0 0.6 -0.8 7\n4 5 6 0 0 0 8\n", "a.txt");
  CHECK((field(normals, "ny") == Numbers{0.6, 0}));
  CHECK((normals.columns == Names{"x", "y", "z", "nx", "ny", "nz", "?"}));
  CHECK((read_bytes("1 2 3 4 5 6\n", "a.xyzn").columns == Names{"x", "y", "z", "nx", "ny", "nz"}));
  CHECK((colors_of("1 2 3 0 1 0\n", "a.xyzrgb") == Floats{0, 1, 0}));
  const Cloud leica = read_bytes("2\n1 2 3 -1500 255 0 51\n4 5 6 700 102 0 0\n", "a.pts");
  CHECK((field(leica, "intensity") == Numbers{-1500, 700}));
  CHECK((leica.colors == Floats{1, 0, 0.2f, 0.4f, 0, 0}));
  CHECK((field(read_bytes("1 2 3 7\n", "a.pts"), "intensity") == Numbers{7}));
}

void given_columns_win() {
  const ReadOptions options{{"-", "z", "y", "x", "gray"}, false};
  for (const char* text :
       {"9 3 2 1 7\n9 6 5 4 8\n", "x y z a b\n9 3 2 1 7\n9 6 5 4 8\n", "a,b,c,d,e\nn,3,2,1,7\nm,6,5,4,8\n",
        "# id id x y z\n9 3 2 1 7\n9 6 5 4 8\n", "2\n9;3;2;1;7\nfive;6;5;4;8\n"}) {
    const Cloud cloud = CHECK_POINTS_WITH(options, text, "a.txt", {1, 2, 3, 4, 5, 6});
    CHECK((field(cloud, "gray") == Numbers{7, 8}));
    CHECK((cloud.columns == Names{"z", "y", "x", "gray"}));
  }
  CHECK_ERROR(error_of("1 2 3 4\n", "a.txt", options), "a.txt: line 1: 4 columns, expected 5 as in --columns");
  CHECK_ERROR(error_of("1 2 3 4 five\n", "a.txt", options), "line 1, column 5: 'five', expected a number; write -");
  CHECK_ERROR(error_of("1 2 3\n", "a.txt", {{"x", "y", "w"}, false}), "the columns 'x', 'y', 'w', expected x, y and z");
  CHECK_ERROR(error_of("1 2 3 4\n", "a.txt", {{"x", "y", "z", "x"}, false}), "two columns with the name 'x'");
}

void points_without_a_return_are_dropped() {
  for (const char* nothing :
       {"nan nan nan", "1 2 NaN", "-nan 2 3", "inf 2 3", "1 -1.#IND 3", "1 2 1.#QNAN", "1 2 -Infinity"}) {
    const std::string text = std::string("1 2 3\n") + nothing + "\n4 5 6\n";
    const Cloud cloud = CHECK_POINTS(text, "a.xyz", {1, 2, 3, 4, 5, 6});
    CHECK(cloud.dropped == 1 && cloud.kept == (std::vector<std::size_t>{0, 2}));
    CHECK_ERROR(error_of(text, "a.xyz", {{}, true}), "1 of 3 points with a NaN or infinite coordinate");
  }
}

void headers_that_are_not_understood_are_refused() {
  CHECK_REFUSED("id,x,y\n1,2,3\n", "a.csv", "line 1: the columns 'id', 'x', 'y', expected x, y and z");
  CHECK_REFUSED("a,b,c\n1,2,3\n", "a.csv", "name them with --columns");
  CHECK_REFUSED("lat lon height\n0 1.5 -2\n", "a.txt", "the columns 'lat', 'lon', 'height'");
  CHECK_REFUSED("x y z\n1 2 3 4\n", "a.txt", "line 2: 4 columns, expected 3 as in line 1");
  CHECK_REFUSED("x y z i\n1 2 3\n", "a.txt", "line 2: 3 columns, expected 4 as in line 1");
  CHECK_REFUSED("\"x\" \"y\" \"z\"\n\"1\" 0.1 0.2 0.3\n", "a.txt", "line 2: 4 columns, expected 3 as in line 1");
  CHECK_REFUSED("# id x y z\n1 2 3 4 5 6\n", "a.txt", "line 2: 6 columns, expected 4 as in the comment in line 1");
  CHECK_REFUSED("x y z\nm m m\n1 2 3\n", "a.txt", "line 2: 'm m m', expected numbers");
  CHECK_REFUSED("x y z\n1 two 3\n", "a.txt", "line 2, column 2: 'two', expected a number");
  CHECK_REFUSED("x y z x\n1 2 3 4\n", "a.txt", "two columns with the name 'x'");
  CHECK_REFUSED("ncols 12\nnrows 8\nxllcorner 0\n1 2 3\n", "a.asc", "line 1: 2 columns in 'ncols 12'");
  CHECK_REFUSED("3\nwater\nO 0 0 0.1\nH 0 0.7 -0.4\nH 0 -0.7 -0.4\n", "a.xyz", "line 2: the columns 'water'");
  CHECK_REFUSED("3\n\nO 0 0 0.1\nH 0 0.7 -0.4\nH 0 -0.7 -0.4\n", "a.xyz",
                "line 3: 'O 0 0 0.1', expected numbers, or the");
  CHECK_REFUSED("v 1 2 3\nv 4 5 6\nf 1 2 3\n", "a.txt", "line 1: 'v 1 2 3', expected numbers");
  CHECK_REFUSED("10\n20\n0 0 0\n", "a.txt", "line 2: 1 column in '20', expected at least 3");
  CHECK_REFUSED("12 a b\n", "a.txt", "line 1: '12 a b', expected numbers");
  CHECK_REFUSED(",0,1,2\n0,0.1,0.2,0.3\n", "a.csv", "line 1: ',0,1,2', expected numbers");
}

void numbers_above_the_columns_are_no_point() {
  const Cloud cloud = CHECK_POINTS("0,1,2\n0.5,0.25,1.0\n", "a.csv", {0.5f, 0.25f, 1});
  CHECK(has_note(cloud, "line 1 numbers the columns from 0"));
  CHECK_POINTS("0,1,2\n3,4,5\n", "a.csv", {0, 1, 2, 3, 4, 5});
  CHECK_POINTS("0,1,2\n", "a.csv", {0, 1, 2});
  CHECK_POINTS("0 1 2\n0.5 0.5 0.5\n", "a.xyz", {0, 1, 2, 0.5f, 0.5f, 0.5f});
}

void a_comment_of_other_words_does_not_matter() {
  for (const char* comment :
       {"# shifted by x, y and z", "# x y z r g b", "# x x y z", "// the z axis is up, x and y are not", "# X: right",
        "#", "//", "# 1 2 3", "# format: x y z"}) {
    CHECK_POINTS(std::string(comment) + "\n1 2 3 4\n", "a.txt", {1, 2, 3});
  }
}

void decimal_commas_are_understood_or_refused() {
  CHECK(has_note(read_bytes("1,5;2,0;3,0\n", "a.csv"), "commas are read as decimal marks"));
  CHECK_POINTS("1;2;3\n4,5;5;6\n", "a.csv", {1, 2, 3, 4.5f, 5, 6});
  CHECK_POINTS("x;y;z\n1,5;2,0;3,0\n", "a.csv", {1.5f, 2, 3});
  for (const char* text : {"1.5;2,0;3\n", "1,5;2.0;3\n", "1.5;2;3\n1;2,5;3\n", "1;2,5;3\n1.5;2;3\n", "1,234.5;2;3\n",
                           "1,234,567;2;3\n", "1,5, 2,5, 3,5\n", "\"1,5\",\"2,5\",\"3,5\"\n", "1,5 2,5\n"}) {
    CHECK_REFUSED(text, "a.csv", "line ");
  }
}

void a_bad_line_is_named() {
  CHECK_REFUSED("", "a.txt", "a.txt: an empty file, expected a cloud");
  for (const char* text : {"# nothing\n\n", "x y z\n", "\n", "\xEF\xBB\xBF"})
    CHECK_REFUSED(text, "a.txt", "0 points, expected");
  CHECK_REFUSED("1 2 3\n# two\n4 5\n6 7 8\n", "a.txt", "line 3: 2 columns in '4 5', expected 3 as in line 1; correct");
  CHECK_REFUSED("1 2 3\n4 5\n\n", "a.txt",
                "line 2: 2 columns in '4 5', expected 3 as in line 1; the file is cut short");
  CHECK_REFUSED("1 2 3\r\n4 5 6 7\r\n", "a.txt", "line 2: 4 columns in '4 5 6 7', expected 3 as in line 1");
  CHECK_REFUSED("1 2 3 # 4\n5 6 7 8\n", "a.txt", "line 2: 4 columns");
  CHECK_REFUSED("1,2,3\n4 5 6\n", "a.txt", "line 2: 1 column in '4 5 6'");
  CHECK_REFUSED("1,2,3\n4;5;6\n", "a.txt", "line 2: 1 column in '4;5;6'");
  CHECK_REFUSED("1 2 3\nx y z\n", "a.txt", "line 2, column 1: 'x', expected a number");
  CHECK_EQUAL(CHECK_POINTS("1,2,3\n4,,6\n7,8,9\n", "a.csv", {1, 2, 3, 7, 8, 9}).dropped, std::size_t{1});  // pandas
  CHECK_REFUSED("1,2,3\n4,5,", "a.txt", "line 2, column 3: '', expected a number");
  CHECK_REFUSED("1 2 3 7\n4 5 6 chair\n", "a.txt", "line 2, column 4: 'chair', expected a number");
  CHECK_REFUSED("3\n1 2 3\n4 5 6\n", "a.pts", "2 points, expected 3 as the file declares; it is cut short");
  CHECK_REFUSED("1\n1 2 3\n2\n4 5 6\n", "a.pts", "2 points, expected 3");
  CHECK_REFUSED("2\n1 2 3\n2\n4 5 6\n", "a.pts", "line 3: 1 column in '2'");
  CHECK_REFUSED("5\n", "a.pts", "0 points, expected");
  CHECK_REFUSED("18446744073709551615\n1 2 3\n", "a.pts", "1 points, expected 18446744073709551615");
  CHECK_REFUSED("99999999999999999999\n1 2 3\n", "a.pts",
                "line 1: '99999999999999999999', expected a number of points");
  CHECK_REFUSED(std::string(100000, '7'), "a.txt", "line 1: '7777");
  CHECK_REFUSED("1 2 " + std::string(100000, '7'), "a.txt", "no point with finite coordinates");
  CHECK_REFUSED("1 2 " + std::string(100000, 'x'), "a.txt", "line 1: '1 2 xxxx");
  CHECK_REFUSED(repeated("1 ", 5000), "a.txt", "more than 1000 columns");
  CHECK_REFUSED(repeated("x,", 5000) + "y,z\n1,2,3\n", "a.txt", "the columns 'x', 'x'");
  CHECK_REFUSED("1 2 1e39\n", "a.txt", "coordinates too large for float32");
  for (const char* number : {"0x1p3", "1e", ".", "--1", "1.2.3", "1f", "1_000", "e5", "\x1b[2J"}) {
    CHECK_REFUSED("1 2 3\n4 5 " + std::string(number) + "\n", "a.txt", "line 2, column 3");
  }
}

void other_encodings_and_formats_are_named() {
  CHECK_REFUSED(std::string("\xFF\xFE"
                            "1\0 \0",
                            6),
                "a.txt", "text in UTF-16, expected UTF-8");
  CHECK_REFUSED(std::string("1\0 \0002\0 \0003\0", 10), "a.txt", "binary bytes, expected text");
  CHECK_REFUSED("ply\nformat ascii 1.0\n", "a.txt", "the first bytes of a PLY file, expected text");
  CHECK_REFUSED("# .PCD v0.7\nVERSION 0.7\n", "a.xyz", "the first bytes of a PCD file");
  CHECK_REFUSED("LASF\1\2", "a.txt", "the first bytes of a LAS file");
}

void damage_gives_a_cloud_or_a_sentence() {
  check_damage("5\nx,y,z,r\n1,2,3,4\n5e1,6,7.5,8 # a\n-9,1,2,3\n4,5,6,7\n8,9,1,2 // b\n", "a.txt", 4000);
  check_damage("//X Y Z R G B label\n2\n1 2 3 4 5 6 a\n7.5 8 nan 9 9 9 \"b c\"\n", "a.pts", 4000);
  check_damage("\"X [m]\";Y [m];z\n1,5;2,5;3\n4;5;6\n", "a.csv", 4000);
}

}  // namespace

int main() {
  all_ways_to_write_a_text_give_the_same_points();
  fields_keep_their_names();
  columns_without_names_are_read_by_their_values();
  given_columns_win();
  points_without_a_return_are_dropped();
  headers_that_are_not_understood_are_refused();
  numbers_above_the_columns_are_no_point();
  a_comment_of_other_words_does_not_matter();
  decimal_commas_are_understood_or_refused();
  a_bad_line_is_named();
  other_encodings_and_formats_are_named();
  damage_gives_a_cloud_or_a_sentence();
  return check_report();
}
