#include "label_files.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include "clouds/lines.h"
#include "format/text.h"
#include "options.h"
#include "palette.h"

namespace bipointnet::tool {
namespace {

namespace fs = std::filesystem;
using clouds::Cloud;

std::string suffix_of(const std::string& path) {
  return clouds::lowered(fs::path(path).extension().string());
}

// Little-endian on every machine.
template <class Bits>
void append(std::string& bytes, Bits bits) {
  for (std::size_t i = 0; i < sizeof bits; ++i) bytes += static_cast<char>(bits >> (8 * i) & 0xFF);
}

template <class Bits, class Real>
void append_real(std::string& bytes, Real number) {
  static_assert(sizeof(Bits) == sizeof(Real));
  Bits bits;
  std::memcpy(&bits, &number, sizeof bits);
  append(bytes, bits);
}

// One label per point of the file, -1 for a dropped point.
std::vector<int> in_file_order(const Cloud& cloud, const std::vector<int>& labels) {
  if (cloud.kept.empty()) return labels;
  std::vector<int> all(cloud.size() + cloud.dropped, -1);
  for (std::size_t i = 0; i < labels.size(); ++i) all[cloud.kept[i]] = labels[i];
  return all;
}

std::string text_bytes(const std::vector<int>& labels) {
  std::string bytes;
  for (const int label : labels) bytes += std::to_string(label) + "\n";
  return bytes;
}

// NumPy's format 1.0: the length of magic, version, length and description is a multiple of 64.
std::string npy_bytes(const std::vector<int>& labels) {
  std::string about =
      "{'descr': '<i8', 'fortran_order': False, 'shape': (" + std::to_string(labels.size()) + ",), }";
  about.append(63 - (10 + about.size()) % 64, ' ');
  about += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  append(bytes, static_cast<std::uint16_t>(about.size()));
  bytes += about;
  for (const int label : labels) append(bytes, static_cast<std::uint64_t>(std::int64_t{label}));
  return bytes;
}

// A name without characters that could end a line or the header.
std::string on_one_line(const std::string& name) {
  std::string line;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t length = std::max<std::size_t>(utf8_length(name, at), 1);
    const unsigned first = byte_at(name, at);
    const bool blank = first <= 0x20 || first == 0x7F || utf8_length(name, at) == 0;
    if (!blank) line += name.substr(at, length);
    if (blank && !line.empty() && line.back() != ' ') line += ' ';
    at += length;
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  // Some readers end the header at this word even within a line.
  const std::string word = "end_header";
  for (std::size_t at = line.find(word); at != std::string::npos; at = line.find(word, at)) line[at + 3] = '-';
  return line;
}

// Coordinates of the file are double if float would move a point by more than a millionth of the cloud's extent.
bool fits_float32(const std::vector<double>& xyz) {
  double moved = 0, extent = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    double low = xyz[axis], high = xyz[axis];
    for (std::size_t i = axis; i < xyz.size(); i += 3) {
      low = std::min(low, xyz[i]);
      high = std::max(high, xyz[i]);
      moved = std::max(moved, std::abs(double{static_cast<float>(xyz[i])} - xyz[i]));
    }
    extent = std::max(extent, high - low);
  }
  return moved <= 1e-6 * extent;
}

std::string ply_bytes(const Cloud& cloud, const std::vector<int>& labels, const std::vector<std::string>& classes) {
  std::vector<double> xyz(cloud.points.begin(), cloud.points.end());
  for (std::size_t i = 0; i < xyz.size(); ++i) xyz[i] += cloud.origin[i % 3];
  const bool narrow = fits_float32(xyz);
  std::string bytes = "ply\nformat binary_little_endian 1.0\n";
  for (std::size_t i = 0; i < classes.size(); ++i) {
    bytes += "comment label " + std::to_string(i) + " is " + on_one_line(classes[i]) + "\n";
  }
  bytes += "element vertex " + std::to_string(labels.size()) + "\n";
  for (const char* axis : {"x", "y", "z"}) {
    bytes += std::string("property ") + (narrow ? "float " : "double ") + axis + "\n";
  }
  bytes += "property uchar red\nproperty uchar green\nproperty uchar blue\nproperty int label\nend_header\n";
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const double number = xyz[3 * i + axis];
      if (narrow) append_real<std::uint32_t>(bytes, static_cast<float>(number));
      if (!narrow) append_real<std::uint64_t>(bytes, number);
    }
    const std::uint32_t color = kPalette[static_cast<std::size_t>(labels[i]) % std::size(kPalette)];
    for (const unsigned shift : {16u, 8u, 0u}) append(bytes, static_cast<std::uint8_t>(color >> shift));
    append(bytes, static_cast<std::uint32_t>(labels[i]));
  }
  return bytes;
}

[[noreturn]] void fail(const std::string& path, int reason) {
  throw Error(path + ": cannot be written (" + std::strerror(reason) + "); choose another path with --labels");
}

bool write_all(std::FILE* file, const std::string& bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || std::fflush(file) != 0) return false;
#if defined(__unix__) || defined(__APPLE__)
  if (fsync(fileno(file)) != 0) return false;
#endif
  return true;
}

void write_beside(const std::string& path, const std::string& bytes) {
  std::error_code error;
  const fs::path target(path);
  char name[32];
  std::snprintf(name, sizeof name, ".labels-%08x.part", static_cast<unsigned>(std::random_device()()));
  const fs::path beside = target.parent_path() / name;
  std::FILE* file = std::fopen(beside.string().c_str(), "wb");
  if (file == nullptr) fail(path, errno);
  const bool written = write_all(file, bytes);
  const int reason = errno;
  if ((std::fclose(file) == 0) && written) {
    fs::rename(beside, target, error);
    if (!error) return;
  }
  std::error_code ignored;
  fs::remove(beside, ignored);
  fail(path, error ? error.value() : reason);
}

}  // namespace

void check_label_file(const std::string& path) {
  const std::string suffix = suffix_of(path);
  if (suffix != ".txt" && suffix != ".npy" && suffix != ".ply") {
    throw Error("--labels is '" + path + "', expected a file with the suffix .txt, .npy or .ply");
  }
  std::error_code error;
  const fs::path target(path), folder = target.parent_path();
  if (fs::exists(target, error) && !fs::is_regular_file(target, error)) {
    throw Error(path + ": " + (fs::is_directory(target, error) ? "a folder" : "not a file") +
                ", expected a file to write; choose another path with --labels");
  }
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    throw Error(path + ": there is no folder '" + folder.string() + "'; make it, or choose another path with --labels");
  }
}

void write_labels(const std::string& path, const Cloud& cloud, const std::vector<int>& labels,
                  const std::vector<std::string>& classes) {
  const std::string suffix = suffix_of(path);
  write_beside(path, suffix == ".ply"   ? ply_bytes(cloud, labels, classes)
                     : suffix == ".npy" ? npy_bytes(in_file_order(cloud, labels))
                                        : text_bytes(in_file_order(cloud, labels)));
}

}  // namespace bipointnet::tool
