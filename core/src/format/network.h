// A packed model in memory: what format.cpp makes of a file and model.cpp runs. docs/format.md says what it means.
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

struct Layer {
  Op op{};
  int inputs = 0;                       // K of the current value before it
  int outputs = 0;                      // K after it; for matrix its size D
  bool on_points = false;               // whether the value before it is one of points or one vector
  Activation activation = Activation::none;
  Pool pool = Pool::max;
  bool shifted = false;                 // bilinear_pool: d = delta(n)
  float at = 0;                         // compare
  int matrix = 0;                       // transform: number of the matrix; matrix: the number it gets
  int kept = -1;                        // keep, and bilinear_pool with a threshold: the number that the kept value gets
  std::vector<int> joined;              // join: numbers of kept values
  std::vector<std::uint64_t> bits;      // outputs x words_for(inputs), row-major
  std::vector<std::int16_t> threshold;  // outputs; of bilinear_pool none where it keeps nothing
  std::vector<double> line;             // outputs x 2
  std::vector<float> weight;            // outputs x inputs
  std::vector<float> bias;              // outputs
};

// Sizes in a file are ints.
inline std::size_t size(int count) { return static_cast<std::size_t>(count); }

// Bits that a program keeps, of every point or of the cloud.
struct Kept {
  bool on_points = false;
  int width = 0;
};

struct Network {
  std::string manifest;                 // JSON text, as in the file
  std::vector<std::string> classes;
  std::vector<std::string> categories;  // none where the program does not take the category of a cloud
  std::vector<std::vector<int>> parts;  // of each category the classes its points can have; none where that is any
  int channels = 0;
  bool normalize = false;
  std::vector<Layer> layers;
  std::vector<Kept> kept;               // by their numbers
  bool segments = false;                // whether every point has logits, or the cloud
  std::uint64_t golden_seed = 0;
  int golden_points = 0;
  double golden_tolerance = 0;
  std::vector<float> golden;            // classes, or golden_points x classes
};

// The network in `size` bytes. Throws FormatError; every tensor and every field is checked, the golden vector is not.
Network parse(const std::uint8_t* bytes, std::size_t size);

}  // namespace bipointnet
