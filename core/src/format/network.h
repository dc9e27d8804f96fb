// A packed model in memory: a program over named values. format/ reads it from a file, engine/ runs it; docs/format.md
// defines its meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "format/bits.h"
#include "format/block_layout.h"

namespace bipointnet {

struct FormatError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// In the order of the table in operations.cpp.
enum class Op {
  points,
  category,
  farthest,
  nearest,
  ball,
  interpolate,
  density,
  gather,
  broadcast,
  flatten,
  size,
  concat,
  slice,
  add,
  subtract,
  multiply,
  divide,
  affine,
  function,
  dense,
  transform,
  mix,
  outer,
  pool,
  sign,
  mean_abs,
  bilinear,
  bilinear_float,
  bilinear_pool,
};
enum class Kind { floats, bits, indices };
enum class Activation { none, relu, hardtanh };
enum class Function { relu, hardtanh, leaky_relu, abs, square, sqrt, reciprocal, exp, sigmoid, tanh };
enum class Pool { max, mean, sum };
enum class Over { points, neighbors, distinct };                    // what a pool counts
enum class Order { coordinates, index, nearest, slots, channels };  // of farthest, ball, flatten
enum class Guard { limit, add, clamp };
enum class Rounding { floor, ceil, even };
enum class Task { classify, part, semantic };  // classify: logits of the cloud; part and semantic: logits per point

// A number of elements, from the number n of elements of a set: min(most, max(least, round(factor n))).
struct SizeRule {
  double factor = 0;
  Rounding rounding = Rounding::floor;
  std::uint32_t least = 1, most = 1;

  std::size_t operator()(std::size_t n) const;
  bool fixed() const { return least == most; }
};

// What the elements of a value are. Domain 0 is the cloud, domain 1 the input points.
struct Domain {
  enum class Type { cloud, set, groups } type = Type::cloud;
  int parent = -1;      // of a set: the cloud; of groups: the domain of the centers; of the cloud: none
  int source = -1;      // of a set made by farthest, or of groups: the set that its indices refer to
  SizeRule count;       // elements of a set made by farthest, or slots of groups; n is the size of the source
  bool capped = false;  // a set made by farthest in the order of coordinates has at most n elements
};

// A named value.
struct Value {
  std::string name;
  Kind kind = Kind::floats;
  int domain = 0;
  int channels = 0;  // 1 for indices
};

struct Operation {
  Op op{};
  std::vector<int> in, out;  // numbers of values
  int inputs = 0;            // channels of the first operand; 0 without operands
  int outputs = 0;           // channels of the first result
  int groups = 1;            // dense, mean_abs, bilinear, bilinear_float
  Activation activation = Activation::none;
  Function function = Function::relu;
  Pool pool = Pool::max;
  Over over = Over::points;
  bool shifted = false;  // pool, bilinear_pool: d = delta(n)
  Order order = Order::index;
  Guard guard = Guard::limit;
  int dilation = 1;
  int from = 0, to = 0;                 // slice
  float at = 0;                         // sign
  float slope = 0;                      // function leaky_relu
  double radius = 0;                    // ball
  double bandwidth = 0;                 // density
  float epsilon = 0;                    // interpolate
  std::vector<std::uint64_t> bits;      // outputs x words_for(inputs / groups), row-major
  std::vector<std::int16_t> threshold;  // outputs; of bilinear_pool: only with a second result
  std::vector<double> line;             // outputs x 2
  std::vector<float> weight;            // outputs x inputs / groups
  std::vector<float> bias;              // outputs
};

// Sizes in a file are int; those in memory are std::size_t.
inline std::size_t size(int count) { return static_cast<std::size_t>(count); }

// Where a cloud is centered before it is scaled to the unit sphere: at its mean point or at the center of its bounding box.
enum class Normalize { none, mean, box };

struct Network {
  std::string manifest;  // JSON, as in the file
  Task task = Task::classify;
  std::vector<std::string> classes;
  std::vector<std::string> categories;  // empty if the category is not an input
  std::vector<std::vector<int>> parts;  // the classes that points of each category can have; empty: all
  int channels = 0;
  std::size_t max_points = 0;  // that a prediction uses; 0: all
  Normalize normalize = Normalize::none;
  BlockLayout blocks;  // of task semantic; its side is 0 if the file does not say how scans are cut
  std::vector<Domain> domains;
  std::vector<Value> values;
  std::vector<Operation> operations;  // in order; the first result of the last one is the logits
  std::uint64_t golden_seed = 0;
  int golden_points = 0;
  double golden_tolerance = 0;
  std::vector<float> golden;  // classes, or golden_points x classes

  bool per_point() const { return task != Task::classify; }  // whether there are logits per point, or of the cloud

  // The number of elements of every domain for a cloud of `points` points. Throws std::bad_alloc if one of them does
  // not fit std::size_t.
  std::vector<std::size_t> sizes(std::size_t points) const;
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
