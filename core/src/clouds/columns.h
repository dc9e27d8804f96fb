// The roles of columns by their names, the same for every format.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "clouds/cloud.h"

namespace bipointnet::clouds {

using Triple = std::array<std::size_t, 3>;

// The columns of x, y and z: named x, y, z in any case, with a unit ("X [m]", "x(m)") or in one of the forms that other
// programs write ("//X", "px", "pos_x", "x_coord", "Points:0", "Points_0"). None if one of the three is missing. Throws a
// CloudError if two columns have the same role.
std::optional<Triple> coordinate_columns(const std::vector<std::string>& names);

// Whether coordinate_columns() returns columns. It never throws: a comment is no error.
bool names_coordinates_once(const std::vector<std::string>& names);

// The columns of red, green and blue: "red", "r", "diffuse_red", "Rf", "scalar_R".
std::optional<Triple> color_columns(const std::vector<std::string>& names);

// Names the columns of a file that names none: x, y, z, and where they follow, colors, normals or the intensity. Colors
// are whole numbers from 0 to 255 or fractions from 0 to 1; normals have length 1. `suffix` decides where it can: .pts has
// the intensity before the colors, .xyzn has normals, .xyzrgb has colors; it is empty for formats without --columns. A
// guess adds a note. Needs 3 columns or more.
void name_by_position(std::vector<Column>& columns, const std::string& suffix, std::vector<std::string>& notes);

// Refuses --columns that name another number of columns than the file has.
void check_column_count(const std::vector<std::string>& given, std::size_t found, const std::string& where);

// Sets `bits` to 0 where a column holds other numbers than its type: text may, like colors from 0 to 1 declared as uchar.
void check_declared_bits(std::vector<Column>& columns);

// The names in quotation marks, separated by commas, for errors.
std::string listed(const std::vector<std::string>& names);

}  // namespace bipointnet::clouds
