// Chooses the reader of a file; the readers of text and raw float32. PLY is in ply.cpp.
#include "clouds.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "cloud_parts.h"

namespace bipointnet {
namespace {

// Splits off at most `most` fields of a line: at semicolons if it has one, else at commas, else at blanks. So the
// fields of "1,5;2" are "1,5", which is not a number, and "2"; they never become the three numbers of a wrong point.
void split_fields(std::string_view line, std::size_t most, Words& fields) {
  const char mark = line.find(';') != std::string_view::npos ? ';' : ',';
  if (line.find(mark) == std::string_view::npos) {
    split_blanks(line, most, fields);
  } else {
    fields.clear();
    for (std::size_t end = 0; end != std::string_view::npos && fields.size() < most;) {
      end = line.find(mark);
      fields.push_back(trimmed(line.substr(0, end)));
      if (end != std::string_view::npos) line.remove_prefix(end + 1);
    }
  }
  for (std::string_view& field : fields) {
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
  }
}

// Whether these are names of columns and not numbers, valid or invalid.
bool are_names(const Words& fields) {
  return std::none_of(fields.begin(), fields.end(), [](std::string_view field) {
    const std::string low = lowered(field);
    return low.empty() || std::strchr("+-.0123456789", low[0]) || low == "nan" || low == "inf" || low == "infinity";
  });
}

struct Format {
  const char* suffix;
  std::vector<double> (*parse)(std::string_view, std::size_t);
};

constexpr Format kFormats[] = {{".xyz", parse_text},   {".txt", parse_text},  {".csv", parse_text},
                               {".pts", parse_text},   {".ply", parse_ply},   {".f32", parse_floats},
                               {".bin", parse_floats}, {".raw", parse_floats}};

const Format& format_of(const std::string& path) {
  const std::size_t dot = path.find_last_of("./");
  const std::string suffix = dot == std::string::npos || path[dot] == '/' ? "" : lowered(path.substr(dot));
  for (const Format& format : kFormats) {
    if (suffix == format.suffix) return format;
  }
  refuse("", "the suffix is " + excerpt(suffix), "one of " + cloud_suffixes());
}

std::string read_all(std::FILE* file) {
  std::string bytes;
  char part[65536];
  while (const std::size_t count = std::fread(part, 1, sizeof part, file)) bytes.append(part, count);
  if (std::ferror(file)) refuse("", std::string("cannot read the file (") + std::strerror(errno) + ")", "a cloud");
  return bytes;
}

std::string read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) refuse("", std::string("cannot open the file (") + std::strerror(errno) + ")", "a file with a cloud");
  return read_all(file.get());
}

}  // namespace

std::string cloud_suffixes() {
  std::string all;
  for (const Format& format : kFormats) all += (all.empty() ? "" : " ") + std::string(format.suffix);
  return all;
}

std::vector<double> parse_text(std::string_view bytes, std::size_t channels) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (bytes.substr(0, byte_order_mark.size()) == byte_order_mark) bytes.remove_prefix(byte_order_mark.size());
  std::vector<std::size_t> columns(channels);
  for (std::size_t c = 0; c < channels; ++c) columns[c] = c;
  std::size_t needed = channels;  // columns per line
  std::optional<std::size_t> declared;
  bool leading = true;  // whether the number of points or the names of the columns may follow
  std::vector<double> numbers;
  Words fields;
  Lines lines(bytes);
  for (std::string_view line; lines.next(line);) {
    line = trimmed(line.substr(0, std::min(line.find('#'), line.find("//"))));
    if (line.empty()) continue;
    if (leading && !declared && line.find_first_not_of("0123456789") == std::string_view::npos) {
      declared = whole_number(line);
      if (!declared) refuse(lines.where(), excerpt(line), "a number of points that a file can hold");
      continue;
    }
    if (std::exchange(leading, false)) {
      split_fields(line, line.size(), fields);
      if (fields.size() >= channels && are_names(fields)) {
        columns = columns_of(fields, channels).value_or(columns);
        needed = 1 + *std::max_element(columns.begin(), columns.end());
        continue;
      }
    }
    split_fields(line, needed, fields);
    if (fields.size() < needed) {
      const std::string found = text_of(fields.size()) + (fields.size() == 1 ? " column" : " columns");
      refuse(lines.where(), found + " in " + excerpt(line), "at least " + text_of(needed));
    }
    for (const std::size_t column : columns) numbers.push_back(number_of(fields[column], lines, column));
  }
  const std::size_t points = numbers.size() / channels;
  if (points < declared.value_or(0))
    refuse("", text_of(points) + " points", text_of(*declared) + " as in its first line");
  return required_points(std::move(numbers));
}

std::vector<double> parse_floats(std::string_view bytes, std::size_t channels) {
  if (bytes.size() % (4 * channels) != 0) {
    refuse("", text_of(bytes.size()) + " bytes",
           "a multiple of " + text_of(4 * channels) + ", " + text_of(channels) + " float32 per point");
  }
  std::vector<double> numbers(bytes.size() / 4);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = value_of(bytes.substr(4 * i, 4), kFloat32, false);
    if (!fits(numbers[i])) refuse_number(numbers[i], i / channels, "number " + text_of(i % channels));
  }
  return required_points(std::move(numbers));
}

std::vector<float> to_float32(const std::vector<double>& numbers, std::size_t channels, bool relative) {
  std::vector<float> narrow(numbers.size());
  double low[3], high[3], error = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) low[axis] = high[axis] = numbers[axis];
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    narrow[i] = static_cast<float>(numbers[i]);
    const std::size_t axis = i % channels;
    if (axis >= 3) continue;
    low[axis] = std::min(low[axis], numbers[i]);
    high[axis] = std::max(high[axis], numbers[i]);
    error = std::max(error, std::abs(double{narrow[i]} - numbers[i]));
  }
  const double extent = std::max({high[0] - low[0], high[1] - low[1], high[2] - low[2]});
  if (!relative || error <= 1e-5 * extent || extent == 0) return narrow;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t axis = i % channels;
    if (axis < 3) narrow[i] = static_cast<float>(numbers[i] - std::floor(low[axis]));
  }
  return narrow;
}

std::vector<float> read_cloud(const std::string& path, std::size_t channels, bool relative) {
  try {
    if (path == "-") return to_float32(parse_text(read_all(stdin), channels), channels, relative);
    const Format& format = format_of(path);
    return to_float32(format.parse(read_file(path), channels), channels, relative);
  } catch (const CloudError& error) {
    throw CloudError((path == "-" ? "standard input" : path) + ": " + error.what());
  }
}

}  // namespace bipointnet
