#include "clouds/finish.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "clouds/columns.h"
#include "clouds/lines.h"

namespace bipointnet::clouds {
namespace {

constexpr double kMaxFloat = std::numeric_limits<float>::max();

std::vector<std::string> names_of(const std::vector<Column>& columns) {
  std::vector<std::string> names;
  for (const Column& column : columns) names.push_back(column.name);
  return names;
}

using Axes = std::array<std::vector<double>, 3>;

// The indices of the points whose coordinates are all finite.
std::vector<std::size_t> finite_points(const Axes& xyz) {
  std::vector<std::size_t> kept;
  kept.reserve(xyz[0].size());
  for (std::size_t i = 0; i < xyz[0].size(); ++i) {
    if (std::isfinite(xyz[0][i]) && std::isfinite(xyz[1][i]) && std::isfinite(xyz[2][i])) kept.push_back(i);
  }
  return kept;
}

std::size_t first_dropped(const std::vector<std::size_t>& kept) {
  std::size_t index = 0;
  while (index < kept.size() && kept[index] == index) ++index;
  return index;
}

void keep_only(const std::vector<std::size_t>& kept, std::vector<double>& values) {
  for (std::size_t i = 0; i < kept.size(); ++i) values[i] = values[kept[i]];
  values.resize(kept.size());
}

void to_float32(const Axes& xyz, Cloud& cloud) {
  double extent = 0, error = 0;
  std::array<double, 3> low{};
  cloud.points.resize(3 * xyz[0].size());
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto [least, most] = std::minmax_element(xyz[axis].begin(), xyz[axis].end());
    low[axis] = *least;
    extent = std::max(extent, *most - *least);
    const double largest = std::max({std::abs(*least), std::abs(*most), extent});
    if (largest > kMaxFloat) refuse("", "coordinates too large for float32", "at most 3.4e38; scale them down");
    for (std::size_t i = 0; i < xyz[axis].size(); ++i) {
      cloud.points[3 * i + axis] = static_cast<float>(xyz[axis][i]);
      error = std::max(error, std::abs(double{cloud.points[3 * i + axis]} - xyz[axis][i]));
    }
  }
  if (error <= 1e-5 * extent || extent == 0) return;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    cloud.origin[axis] = std::floor(low[axis]);
    for (std::size_t i = 0; i < xyz[axis].size(); ++i) {
      cloud.points[3 * i + axis] = static_cast<float>(xyz[axis][i] - cloud.origin[axis]);
    }
  }
}

// What a color is divided by, or 0 if the columns are not colors.
double color_scale(const std::vector<Column>& columns, const Triple& rgb) {
  bool whole = true, declared = true;
  double least = 0, most = 0;
  unsigned bits = 0;
  for (const std::size_t index : rgb) {
    const Column& column = columns[index];
    declared = declared && (column.bits == 8 || column.bits == 16);
    bits = std::max(bits, column.bits);
    for (const double value : column.values) {
      if (!std::isfinite(value)) return 0;
      least = std::min(least, value);
      most = std::max(most, value);
      whole = whole && value == std::floor(value);
    }
  }
  if (declared) return bits == 8 || most <= 255 ? 255 : 65535;
  if (least < 0) return 0;
  if (most <= 1) return 1;
  if (!whole) return 0;
  return most <= 255 ? 255 : most <= 65535 ? 65535 : 0;
}

void take_colors(std::vector<Column>& columns, const Triple& rgb, Cloud& cloud) {
  const double scale = color_scale(columns, rgb);
  if (scale == 0) {
    cloud.notes.push_back("the columns " + listed({columns[rgb[0]].name, columns[rgb[1]].name, columns[rgb[2]].name}) +
                          " hold numbers that are not colors");
    return;
  }
  cloud.color_scale = scale;
  cloud.colors.resize(cloud.points.size());
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const std::vector<double>& values = columns[rgb[channel]].values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      cloud.colors[3 * i + channel] = static_cast<float>(values[i] / scale);
    }
  }
}

void check_faces(const Cloud& cloud) {
  const auto count = static_cast<std::int64_t>(cloud.size());
  double area = 0;  // the sum of squared sizes of cross products: not zero if any triangle has an area
  for (std::size_t face = 0; face + 2 < cloud.faces.size(); face += 3) {
    std::array<double, 3> a{}, b{};
    const std::int64_t* corner = &cloud.faces[face];
    for (std::size_t i = 0; i < 3; ++i) {
      if (corner[i] >= 0 && corner[i] < count) continue;
      refuse("triangle " + text_of(face / 3), "the vertex " + std::to_string(corner[i]),
             "0 to " + std::to_string(count - 1) + "; export the mesh again from its source");
    }
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const auto at = [&](std::size_t i) { return double{cloud.points[3 * static_cast<std::size_t>(corner[i]) + axis]}; };
      a[axis] = at(1) - at(0);
      b[axis] = at(2) - at(0);
    }
    area += std::abs(a[1] * b[2] - a[2] * b[1]) + std::abs(a[2] * b[0] - a[0] * b[2]) +
            std::abs(a[0] * b[1] - a[1] * b[0]);
  }
  if (!(area > 0)) {
    refuse("", text_of(cloud.faces.size() / 3) + " triangles without an area",
           "a surface to draw points from; repair the mesh");
  }
}

}  // namespace

Cloud finish(Parsed parsed, bool strict) {
  Cloud cloud;
  cloud.format = std::move(parsed.format);
  cloud.notes = std::move(parsed.notes);
  std::vector<std::string> names = names_of(parsed.columns);
  const std::optional<Triple> coordinates = coordinate_columns(names);
  if (names.empty()) refuse("", "no columns of numbers", "x, y and z");
  if (!coordinates) {
    refuse("", "the columns " + listed(names), "x, y and z; rename them, or name them with --columns");
  }
  Axes xyz;
  for (std::size_t axis = 0; axis < 3; ++axis) xyz[axis] = std::move(parsed.columns[(*coordinates)[axis]].values);
  const std::size_t count = xyz[0].size();
  if (count == 0) refuse("", "0 points", "at least 1; export the file again from its source");

  std::vector<std::size_t> kept = finite_points(xyz);
  cloud.dropped = count - kept.size();
  if (cloud.dropped > 0) {
    const std::string found = text_of(cloud.dropped) + " of " + text_of(count) +
                              " points with a NaN or infinite coordinate, the first is point " +
                              text_of(first_dropped(kept)) + " (counted from 0)";
    if (kept.empty()) refuse("", "no point with finite coordinates among " + text_of(count), "at least 1");
    if (!parsed.faces.empty()) refuse("", found, "none in a mesh; export it again from its source");
    if (strict) refuse("", found, "none because of --strict; remove them, or leave out --strict");
    for (std::vector<double>& values : xyz) keep_only(kept, values);
    cloud.kept = std::move(kept);
  }
  to_float32(xyz, cloud);

  for (std::size_t i = 0; i < parsed.columns.size(); ++i) {
    Column& column = parsed.columns[i];
    cloud.columns.push_back(column.name.empty() ? "?" : column.name);
    if (!cloud.kept.empty() && !column.values.empty()) keep_only(cloud.kept, column.values);
  }
  const std::optional<Triple> colors = color_columns(names);
  if (colors) take_colors(parsed.columns, *colors, cloud);
  for (std::size_t i = 0; i < parsed.columns.size(); ++i) {
    const auto is_in = [i](const Triple& triple) { return std::find(triple.begin(), triple.end(), i) != triple.end(); };
    if (is_in(*coordinates) || (!cloud.colors.empty() && is_in(*colors))) continue;
    cloud.fields.push_back(std::move(parsed.columns[i]));
    if (cloud.fields.back().name.empty()) cloud.fields.back().name = "column " + text_of(i + 1);
  }
  cloud.faces = std::move(parsed.faces);
  if (!cloud.faces.empty()) check_faces(cloud);
  return cloud;
}

}  // namespace bipointnet::clouds
