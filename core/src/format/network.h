// A packed model in memory. format.cpp reads it from a file, engine/ runs it; docs/format.md defines its meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "format/bits.h"

namespace bipointnet {

struct FormatError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Op {
  points,
  transform,
  dense,
  sign,
  compare,
  sign_scaled,
  bilinear,
  bilinear_pool,
  bilinear_float,
  bilinear_scaled,
  pool,
  shift,
  matrix,
  keep,
  category,
  join,
};
enum class Activation { none, relu, hardtanh };
enum class Pool { max, mean };
enum class Task { classify, part, semantic };  // classify: logits of the cloud; part and semantic: logits per point

struct Layer {
  Op op{};
  int inputs = 0;          // channels of the value before it
  int outputs = 0;         // channels of the value after it; of matrix: its size D
  bool on_points = false;  // whether the value before it belongs to points or is one vector
  Activation activation = Activation::none;
  Pool pool = Pool::max;
  bool shifted = false;                 // bilinear_pool: d = delta(n)
  float at = 0;                         // compare
  int matrix = 0;                       // transform: the number of the matrix; matrix: the number that it gets
  int kept = -1;                        // keep, and bilinear_pool with thresholds: the number of the kept value
  std::vector<int> joined;              // join: the numbers of the kept values
  std::vector<std::uint64_t> bits;      // outputs x words_for(inputs), row-major
  std::vector<std::int16_t> threshold;  // outputs; empty for a bilinear_pool that keeps nothing
  std::vector<double> line;             // outputs x 2
  std::vector<float> weight;            // outputs x inputs
  std::vector<float> bias;              // outputs
};

// Sizes in a file are int; those in memory are std::size_t.
inline std::size_t size(int count) { return static_cast<std::size_t>(count); }

// Bits that a program keeps, per point or of the cloud.
struct Kept {
  bool on_points = false;
  int width = 0;
};

struct Network {
  std::string manifest;  // JSON, as in the file
  Task task = Task::classify;
  std::vector<std::string> classes;
  std::vector<std::string> categories;  // empty if the category is not an input
  std::vector<std::vector<int>> parts;  // the classes that points of each category can have; empty: all
  int channels = 0;
  bool normalize = false;
  std::vector<Layer> layers;
  std::vector<Kept> kept;  // by number
  std::uint64_t golden_seed = 0;
  int golden_points = 0;
  double golden_tolerance = 0;
  std::vector<float> golden;  // classes, or golden_points x classes

  bool per_point() const { return task != Task::classify; }  // whether there are logits per point, or of the cloud
};

// The names of the tasks in the manifest.
const char* name_of(Task task);

// Reads the network in `size` bytes. Throws FormatError. Every tensor and every field is checked; the golden vector is
// not compared.
Network parse(const std::uint8_t* bytes, std::size_t size);

// For reading a file in steps, so that nothing is read after a wrong header: its first kLengthSize bytes give
// header_size(), the number of bytes up to the end of the header; these give file_size(). Both throw FormatError.
constexpr std::size_t kLengthSize = 8;
std::uint64_t header_size(const std::uint8_t* bytes, std::size_t size);
std::uint64_t file_size(const std::uint8_t* bytes, std::size_t size);
void check_file_size(std::uint64_t found, std::uint64_t expected);  // throws FormatError if they differ

}  // namespace bipointnet
