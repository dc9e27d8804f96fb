#include "clouds/columns.h"

#include <algorithm>
#include <cmath>

#include "clouds/fields.h"
#include "clouds/lines.h"

namespace bipointnet::clouds {
namespace {

// Each row lists the names of one notation for the three columns of a role, in lower case and without units.
using Notation = std::array<std::string_view, 3>;

constexpr Notation kCoordinates[] = {{"x", "y", "z"},
                                     {"px", "py", "pz"},
                                     {"pos_x", "pos_y", "pos_z"},
                                     {"position_x", "position_y", "position_z"},
                                     {"coord_x", "coord_y", "coord_z"},
                                     {"x_coord", "y_coord", "z_coord"},
                                     {"points:0", "points:1", "points:2"},
                                     {"points_0", "points_1", "points_2"},
                                     {"points_x", "points_y", "points_z"},
                                     {"pos_0", "pos_1", "pos_2"},
                                     {"position_0", "position_1", "position_2"},
                                     {"xyz_0", "xyz_1", "xyz_2"},
                                     {"coord_0", "coord_1", "coord_2"},
                                     {"coords_0", "coords_1", "coords_2"},
                                     {"coordinates_0", "coordinates_1", "coordinates_2"},
                                     {"easting", "northing", "height"},
                                     {"easting", "northing", "elevation"}};
constexpr Notation kColors[] = {{"red", "green", "blue"},
                                {"r", "g", "b"},
                                {"diffuse_red", "diffuse_green", "diffuse_blue"},
                                {"rgb_0", "rgb_1", "rgb_2"},
                                {"color_0", "color_1", "color_2"},
                                {"colors_0", "colors_1", "colors_2"},
                                {"rf", "gf", "bf"},
                                {"scalar_r", "scalar_g", "scalar_b"},
                                {"scalar_red", "scalar_green", "scalar_blue"}};

// Without a comment mark in front, quotation marks around and a unit behind, in lower case: '//X', '"X [m]"' -> 'x'.
std::string plain_name(std::string_view name) {
  const auto strip = [&name](std::string_view marks) {
    while (!name.empty() && marks.find(name.front()) != std::string_view::npos) name.remove_prefix(1);
    while (!name.empty() && marks.find(name.back()) != std::string_view::npos) name.remove_suffix(1);
  };
  strip(" \t/#%\"'");
  const std::size_t unit = name.find_first_of("[(");
  if (unit != std::string_view::npos && unit > 0) name = name.substr(0, unit);
  strip(" \t");
  return lowered(name);
}

// The columns of one notation and the name that two of its columns have, if any.
struct Match {
  Triple columns{};
  std::string twice;
};

template <std::size_t count>
std::optional<Match> match_of(const std::vector<std::string>& names, const Notation (&notations)[count]) {
  std::vector<std::string> plain;
  for (const std::string& name : names) plain.push_back(plain_name(name));
  for (const Notation& notation : notations) {
    Match match;
    bool complete = true;
    for (std::size_t i = 0; i < 3 && complete; ++i) {
      const auto first = std::find(plain.begin(), plain.end(), notation[i]);
      complete = first != plain.end();
      if (!complete) break;
      if (std::find(first + 1, plain.end(), notation[i]) != plain.end()) match.twice = notation[i];
      match.columns[i] = static_cast<std::size_t>(first - plain.begin());
    }
    if (complete) return match;
  }
  return std::nullopt;
}

template <std::size_t count>
std::optional<Triple> columns_of(const std::vector<std::string>& names, const Notation (&notations)[count]) {
  const std::optional<Match> match = match_of(names, notations);
  if (!match) return std::nullopt;
  if (!match->twice.empty()) refuse("", "two columns with the name " + excerpt(match->twice), "one");
  return match->columns;
}

// Only 0 and 1 may be anything, and negative numbers may be normals.
bool like_colors(const Column* columns) {
  double most = 0;
  bool whole = true;
  for (std::size_t i = 0; i < 3; ++i) {
    for (const double value : columns[i].values) {
      if (!(value >= 0 && value <= 255)) return false;
      most = std::max(most, value);
      whole = whole && value == std::floor(value);
    }
  }
  return most <= 1 ? !whole : whole;
}

// Every row has length 1, or 0 where there is no normal, and some number is negative.
bool like_normals(const Column* columns) {
  bool negative = false;
  for (std::size_t row = 0; row < columns[0].values.size(); ++row) {
    double square = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      square += columns[i].values[row] * columns[i].values[row];
      negative = negative || columns[i].values[row] < 0;
    }
    if (!(std::abs(square - 1) < 0.05 || square == 0)) return false;
  }
  return negative;
}

void set_names(std::vector<Column>& columns, std::size_t first, const Notation& names) {
  for (std::size_t i = 0; i < 3; ++i) columns[first + i].name = names[i];
}

}  // namespace

std::optional<Triple> coordinate_columns(const std::vector<std::string>& names) {
  return columns_of(names, kCoordinates);
}

bool names_coordinates_once(const std::vector<std::string>& names) {
  const std::optional<Match> match = match_of(names, kCoordinates);
  return match && match->twice.empty();
}

std::optional<Triple> color_columns(const std::vector<std::string>& names) { return columns_of(names, kColors); }

void name_by_position(std::vector<Column>& columns, const std::string& suffix, std::vector<std::string>& notes) {
  constexpr Notation normals = {"nx", "ny", "nz"};
  set_names(columns, 0, kCoordinates[0]);
  const bool intensity = suffix == ".pts" && (columns.size() == 4 || columns.size() == 7);
  if (intensity) columns[3].name = "intensity";
  const std::size_t first = intensity ? 4 : 3;
  if (columns.size() < first + 3) return;
  if (suffix == ".xyzn") return set_names(columns, first, normals);
  if (suffix == ".xyzrgb") return set_names(columns, first, kColors[0]);
  const bool colors = like_colors(&columns[first]);
  if (!colors && !like_normals(&columns[first])) return;
  set_names(columns, first, colors ? kColors[0] : normals);
  notes.push_back("the columns " + text_of(first + 1) + " to " + text_of(first + 3) + " have no names and are read as " +
                  (colors ? "colors" : "normals") + (suffix.empty() ? "" : "; --columns can name them"));
}

void check_column_count(const std::vector<std::string>& given, std::size_t found, const std::string& where) {
  if (given.size() == found) return;
  refuse(where, counted_columns(found),
         text_of(given.size()) + " as in --columns; name every column, or write - for one to ignore");
}

void check_declared_bits(std::vector<Column>& columns) {
  for (Column& column : columns) {
    if (column.bits == 0) continue;
    const double end = std::ldexp(1.0, static_cast<int>(column.bits));
    const auto fits = [end](double value) { return value >= 0 && value < end && value == std::floor(value); };
    if (!std::all_of(column.values.begin(), column.values.end(), fits)) column.bits = 0;
  }
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t longest = 80;  // so that an error with a list is still one sentence
  std::string list;
  std::size_t count = 0;
  for (; count < names.size() && list.size() < longest; ++count) list += (count ? ", " : "") + excerpt(names[count]);
  return count < names.size() ? list + " and " + text_of(names.size() - count) + " more" : list;
}

}  // namespace bipointnet::clouds
