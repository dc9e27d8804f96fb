// The roles of columns by their names.
#include "cloud_checks.h"
#include "clouds/columns.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

void every_notation_gives_x_y_z() {
  for (const Names& names :
       {Names{"x", "y", "z"}, Names{"X", "Y", "Z"}, Names{"//X", "Y", "Z"}, Names{"# x", "y", "z"},
        Names{"X [m]", "Y [m]", "Z [m]"}, Names{"x(m)", "y(m)", "z(m)"}, Names{"\"X\"", "\"Y\"", "\"Z\""},
        Names{"px", "py", "pz"}, Names{"pos_x", "pos_y", "pos_z"}, Names{"x_coord", "y_coord", "z_coord"},
        Names{"Points:0", "Points:1", "Points:2"}, Names{"Points_0", "Points_1", "Points_2"}}) {
    const auto found = coordinate_columns(names);
    if (!CHECK(found && *found == (Triple{0, 1, 2}))) std::cerr << "  for " << listed(names) << "\n";
  }
  CHECK((*coordinate_columns({"id", "z", "time", "x", "y"}) == Triple{3, 4, 1}));
}

void other_names_give_none() {
  CHECK(!coordinate_columns({}));
  CHECK(!coordinate_columns({"id", "x", "y"}));
  CHECK(!coordinate_columns({"x", "y", "w"}));
  CHECK(!coordinate_columns({"nx", "ny", "nz"}));
  CHECK(!coordinate_columns({"x", "py", "pz"}));
  CHECK(!color_columns({"x", "y", "z"}));
  CHECK(!color_columns({"red", "g", "blue"}));
}

void every_notation_gives_colors() {
  for (const Names& names :
       {Names{"red", "green", "blue"}, Names{"R", "G", "B"}, Names{"diffuse_red", "diffuse_green", "diffuse_blue"},
        Names{"Rf", "Gf", "Bf"}, Names{"scalar_R", "scalar_G", "scalar_B"}}) {
    const auto found = color_columns(names);
    if (!CHECK(found && *found == (Triple{0, 1, 2}))) std::cerr << "  for " << listed(names) << "\n";
  }
}

void a_role_that_occurs_twice_is_refused() {
  CHECK_ERROR(error_of([] { coordinate_columns({"x", "y", "z", "X"}); }),
              "two columns with the name 'x', expected one");
  CHECK((*coordinate_columns({"id", "id", "x", "y", "z"}) == Triple{2, 3, 4}));
  CHECK(!coordinate_columns({"x", "x", "y"}) && !color_columns({"r", "r", "range"}));
  CHECK(names_coordinates_once({"id", "x", "y", "z"}));
  CHECK(!names_coordinates_once({"x", "y", "z", "X"}) && !names_coordinates_once({"x", "y"}));
}

void long_lists_are_cut() {
  CHECK_EQUAL(listed({"a", "b"}), "'a', 'b'");
  CHECK_EQUAL(listed(Names(1000, "x")).substr(80), "'x' and 983 more");
  CHECK(listed(Names(20, std::string(1000, 'x'))).size() < 150);
}

}  // namespace

int main() {
  every_notation_gives_x_y_z();
  other_names_give_none();
  every_notation_gives_colors();
  a_role_that_occurs_twice_is_refused();
  long_lists_are_cut();
  return check_report();
}
