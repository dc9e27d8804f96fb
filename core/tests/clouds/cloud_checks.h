// Checks that the tests of all formats of cloud files share: reading bytes, errors, damage, temporary files.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "clouds/cloud.h"
#include "clouds/formats.h"
#include "clouds/read.h"
#include "packed_writer.h"

namespace bipointnet::clouds {

using Floats = std::vector<float>;
using Numbers = std::vector<double>;
using Names = std::vector<std::string>;

// Reads bytes as the file `name`. They are copied to memory of the exact size, so that a sanitizer detects a read after
// the end.
inline Cloud read_bytes(const std::string& bytes, const std::string& name, const ReadOptions& options = {}) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  return read_cloud_bytes(std::string_view(exact.data(), exact.size()), name, options);
}

// The message of a reader, or "" if it succeeds.
inline std::string error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const CloudError& error) {
    return *error.what() ? error.what() : "an empty message";
  }
  return "";
}

inline std::string error_of(const std::string& bytes, const std::string& name, const ReadOptions& options = {}) {
  return error_of([&] { read_bytes(bytes, name, options); });
}

// The message contains `part` and is one sentence with what was found and what was expected.
inline void check_error(const std::string& error, const std::string& part, const char* file, int line) {
  const bool sentence =
      error.size() < 250 && error.find('\n') == std::string::npos && error.find(", expected ") != std::string::npos;
  if (check(sentence && error.find(part) != std::string::npos, file, line, "the error")) return;
  std::cerr << "  found    " << error << "\n  expected " << part << "\n";
}

// CHECK_ERROR(error, part): the message; CHECK_REFUSED(bytes, name, part): the message of reading these bytes.
#define CHECK_ERROR(error, part) ::bipointnet::clouds::check_error(error, part, __FILE__, __LINE__)
#define CHECK_REFUSED(bytes, name, part) CHECK_ERROR(::bipointnet::clouds::error_of(bytes, name), part)

// The values of a field, or empty if the cloud has no such field.
inline Numbers field(const Cloud& cloud, const std::string& name) {
  for (const Column& column : cloud.fields) {
    if (column.name == name) return column.values;
  }
  return {};
}

// Whether one of the notes contains `part`.
inline bool has_note(const Cloud& cloud, const std::string& part) {
  return std::any_of(cloud.notes.begin(), cloud.notes.end(),
                     [&part](const std::string& note) { return note.find(part) != std::string::npos; });
}

// Reads bytes that must be a cloud with these points; prints the message or the points otherwise.
inline Cloud check_points(const std::string& bytes, const std::string& name, const Floats& points, const char* file,
                          int line, const ReadOptions& options = {}) {
  try {
    Cloud cloud = read_bytes(bytes, name, options);
    if (!check(cloud.points == points, file, line, "the points of " + bytes.substr(0, 200))) {
      std::cerr << "  found   ";
      for (const float number : cloud.points) std::cerr << " " << number;
      std::cerr << "\n";
    }
    return cloud;
  } catch (const CloudError& error) {
    check(false, file, line, std::string(error.what()) + "\n  for " + bytes.substr(0, 200));
  }
  return {};
}

// CHECK_POINTS(bytes, name, {x, y, z, ...}) and CHECK_POINTS_WITH(options, bytes, ...) return the cloud.
#define CHECK_POINTS(bytes, name, ...) \
  ::bipointnet::clouds::check_points(bytes, name, ::bipointnet::clouds::Floats __VA_ARGS__, __FILE__, __LINE__)
#define CHECK_POINTS_WITH(options, bytes, name, ...) \
  ::bipointnet::clouds::check_points(bytes, name, ::bipointnet::clouds::Floats __VA_ARGS__, __FILE__, __LINE__, options)

// What every cloud satisfies, whatever the file was. A file of `size` bytes has fewer values than 64 per byte.
inline void check_sound(const Cloud& cloud, std::size_t size) {
  const std::size_t count = cloud.size();
  CHECK(count > 0 && cloud.points.size() == 3 * count && count <= 64 * size);
  CHECK(std::all_of(cloud.points.begin(), cloud.points.end(), [](float number) { return std::isfinite(number); }));
  CHECK(cloud.colors.empty() || cloud.colors.size() == 3 * count);
  CHECK(std::all_of(cloud.colors.begin(), cloud.colors.end(), [](float c) { return c >= 0 && c <= 1; }));
  for (const Column& column : cloud.fields) CHECK_EQUAL(column.values.size(), count);
  CHECK(cloud.faces.size() % 3 == 0);
  for (const std::int64_t corner : cloud.faces) CHECK(corner >= 0 && static_cast<std::size_t>(corner) < count);
  CHECK_EQUAL(cloud.kept.size(), cloud.dropped > 0 ? count : 0);
  CHECK(std::is_sorted(cloud.kept.begin(), cloud.kept.end()));
}

// Changed, lost and new bytes anywhere give a sound cloud or one sentence.
inline void check_damage(const std::string& whole, const std::string& name, int trials = 2000) {
  std::mt19937 random(1);
  for (int trial = 0; trial < trials; ++trial) {
    std::string damaged = whole;
    for (unsigned change = 0; change < 1 + random() % 3 && !damaged.empty(); ++change) {
      const std::size_t at = random() % damaged.size();
      const char byte = static_cast<char>(random() % 256);
      switch (random() % 6) {
        case 0: damaged.erase(at, 1); break;
        case 1: damaged.insert(at, 1, byte); break;
        case 2: damaged[at] = byte; break;
        case 3: damaged[at] = "0123456789 \n-.e"[random() % 15]; break;
        case 4: damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8)); break;
        default: damaged.insert(at, damaged.substr(at, random() % 40)); break;
      }
    }
    try {
      check_sound(read_bytes(damaged, name), damaged.size());
    } catch (const CloudError& error) {
      CHECK_ERROR(error.what(), ", expected ");
    }
  }
}

// A file that lost its last bytes is refused, except for `spare` bytes that it can do without.
inline void check_cuts(const std::string& whole, const std::string& name, std::size_t spare = 0) {
  CHECK_EQUAL(error_of(whole, name), "");
  for (std::size_t size = 0; size + spare < whole.size(); ++size) {
    CHECK_ERROR(error_of(whole.substr(0, size), name), ", expected ");
  }
}

// Binary numbers of any size: the low bytes of an integer, or float32 and float64.
class BinaryWriter {
 public:
  explicit BinaryWriter(bool big_endian = false) : big_endian_(big_endian) {}

  BinaryWriter& integer(std::size_t size, std::int64_t value) {
    Bytes number;
    append_word(number, static_cast<std::uint64_t>(value));
    number.resize(size);
    return append(number);
  }
  BinaryWriter& f32(float value) {
    Bytes number;
    append_f32(number, value);
    return append(number);
  }
  BinaryWriter& f64(double value) {
    Bytes number;
    append_f64(number, value);
    return append(number);
  }
  BinaryWriter& text(const std::string& text) {
    bytes_ += text;
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  BinaryWriter& append(Bytes& number) {
    if (big_endian_) std::reverse(number.begin(), number.end());
    bytes_.append(number.begin(), number.end());
    return *this;
  }

  bool big_endian_;
  std::string bytes_;
};

inline std::string float32_bytes(const Floats& numbers) {
  BinaryWriter writer;
  for (const float number : numbers) writer.f32(number);
  return writer.bytes();
}

// A folder that is removed at the end.
class Folder {
 public:
  Folder() {
    std::random_device random;
    do {
      path_ = std::filesystem::temp_directory_path() / ("bipointnet-" + std::to_string(random()));
    } while (!std::filesystem::create_directory(path_));
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace bipointnet::clouds
