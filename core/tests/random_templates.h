// Programs that look like real networks, with random sizes.
#pragma once

#include "random_builder.h"

namespace bipointnet::random {

// The largest sizes of a template.
struct Sizes {
  int channels = 130;
  int neighbors = 32;
};

class Templates {
 public:
  Templates(Source& source, const Sizes& sizes) : sizes_(sizes), source_(source) {}

  // 1-bit PointNet: points -> bits -> pool -> bits -> logits.
  Network pointnet() {
    Builder b = start(Task::classify);
    const int features = layers(b, first_bits(b, b.points()), 2);
    return head(b, pooled(b, features));
  }

  // Floats per point after 1-bit layers, with and without one scale per point.
  Network pointnet_floats() {
    Builder b = start(Task::classify);
    int x = b.dense(b.points(), width(), activation());
    for (int i = source_.between(1, 3); i > 0; --i) {
      const int scale = source_.one_in(2) ? b.mean_abs(x, 1) : kNone;
      x = b.bilinear_float(b.sign(x, source_.one_in(2) ? 0 : 0.25f), width(), activation(), 1, scale);
    }
    const Pool pool = source_.one_of<Pool>({Pool::max, Pool::mean, Pool::sum});
    x = b.pool(x, pool, Over::points, pool == Pool::max && source_.one_in(2));
    return head(b, b.sign(x, source_.one_in(2) ? 0 : 1.0f));
  }

  // Without any bits.
  Network pointnet_full_precision() {
    Builder b = start(Task::classify);
    int x = b.points();
    for (int i = source_.between(1, 3); i > 0; --i) x = b.dense(x, width(), activation());
    x = b.pool(x, source_.one_of<Pool>({Pool::max, Pool::mean}), Over::points, false);
    b.dense(b.dense(x, width(), Activation::relu), classes(b), Activation::none);
    return std::move(b.network);
  }

  Network pointnet_with_transforms() {
    Builder b = start(Task::classify);
    const int points = b.points();
    int x = transformed_points(b, points);
    x = b.dense(x, source_.between(1, 24), Activation::hardtanh);
    const int rows = b.channels(x);
    const int matrix = b.bilinear_float(pooled(b, layers(b, b.sign(x), 1)), rows * rows, activation());
    x = b.transform(x, b.plus_identity(matrix, rows), rows);
    return head(b, pooled(b, layers(b, b.sign(x), 1)));
  }

  // Part segmentation: bits of every layer, of the cloud and of the category, next to each other.
  Network parts() {
    const bool categories = source_.one_in(2);
    Builder b = start(categories ? Task::part : Task::semantic);
    const int first = first_bits(b, transformed_points(b, b.points()));
    const int second = b.bilinear(first, width());
    const int third = b.bilinear_float(second, width(), Activation::hardtanh);
    const int fourth = b.bilinear(b.sign(third), width());
    const int both = b.bilinear_pool(fourth, width(), Pool::max, over(), true, true);
    std::vector<int> kept = {first, second, fourth, both + 1, b.broadcast(both, first)};
    if (categories) kept.push_back(b.broadcast(b.category(source_.between(1, 20)), first));
    for (int i = static_cast<int>(kept.size()) - 1; i > 0; --i) {
      std::swap(kept[size(i)], kept[size(source_.below(i + 1))]);
    }
    return head(b, b.concat(kept));
  }

  // Set abstraction by balls; then the features of the cloud or, for logits per point, interpolation to the points.
  Network pointnet2() {
    const bool segments = source_.one_in(2);
    Builder b = start(segments ? Task::semantic : Task::classify);
    const int points = b.points(), xyz = b.slice(points, 0, 3);
    const int fine = first_bits(b, points);
    const Level level1 = abstraction(b, {xyz, fine}), level2 = abstraction(b, level1);
    if (!segments) return head(b, pooled(b, layers(b, level2.bits, 1)));
    const int middle = propagated(b, level1, level2);
    return head(b, propagated(b, {xyz, fine}, {level1.xyz, middle}));
  }

  // Edge convolutions; the neighbors of later layers are found in the features.
  Network dgcnn() {
    Builder b = start(source_.one_in(2) ? Task::semantic : Task::classify);
    const int points = b.points();
    const int first = edge_features(b, points, points);
    const int second = edge_features(b, b.dense(first, 1 + source_.below(12), Activation::none), points);
    const int bits = b.concat({b.sign(first), b.sign(second)});
    const int cloud = pooled(b, bits);
    if (b.network.task == Task::classify) return head(b, cloud);
    return head(b, b.concat({bits, b.broadcast(cloud, points)}));
  }

  // The outer product of weights of the offsets with the features, divided by the density. Some groups are larger than
  // the smallest block.
  Network pointconv() {
    Builder b = start(Task::classify);
    const int points = b.points(), xyz = b.slice(points, 0, 3);
    const int inverse = b.function(b.density(xyz, 0.25), Function::reciprocal);
    const Sizes sizes = sizes_;
    if (source_.one_in(4)) sizes_.neighbors *= 3;
    const Groups groups = sampled_groups(b, xyz);
    sizes_ = sizes;
    const int weight = b.function(b.gather(inverse, groups.indices), Function::tanh);
    const int largest = b.broadcast(b.pool(weight, Pool::max, Over::points, false), groups.indices);
    const int scale = b.dense(b.arithmetic(Op::divide, weight, largest), 1, Activation::relu);
    int features = b.bilinear_float(b.gather(first_bits(b, points), groups.indices), narrow(), activation());
    if (source_.one_in(3)) features = b.concat({features, groups.offsets});
    const int scaled = b.arithmetic(Op::multiply, features, scale);
    const int offsets = b.dense(groups.offsets, 1 + source_.below(8), Activation::relu);
    return head(b, pooled(b, layers(b, b.sign(b.outer(offsets, scaled)), 1)));
  }

  // The X-convolution: a k x k matrix per center mixes the neighbors, then the slots are flattened.
  Network pointcnn() {
    Builder b = start(Task::classify);
    const int points = b.points(), xyz = b.slice(points, 0, 3);
    const int k = source_.one_in(4) ? source_.between(28, 36) : source_.between(1, 12);
    const int centers = b.gather(xyz, b.farthest(xyz, at_most(source_.between(1, 40)), Order::coordinates));
    const int indices = b.nearest(centers, xyz, xyz, exactly(k), source_.between(1, 3));
    const int offsets = b.arithmetic(Op::subtract, b.gather(xyz, indices), b.broadcast(centers, indices));
    const int lifted = b.dense(offsets, narrow(), Activation::hardtanh);
    const int known = first_bits(b, points);
    const int carried = source_.one_in(2) ? b.bilinear_float(b.gather(known, indices), narrow(), activation())
                                          : b.gather(b.bilinear_float(known, narrow(), activation()), indices);
    int matrix = b.dense(b.flatten(offsets, Order::slots), k * k, Activation::hardtanh);
    matrix = b.bilinear_float(b.sign(matrix), k * k, Activation::none, k);
    const int mixed = b.mix(matrix, b.concat({lifted, carried}));
    const int inputs = b.channels(mixed);
    const int bits = b.sign(mixed, source_.one_in(2) ? 0 : 0.25f);
    const int flat = b.flatten(bits, source_.one_of<Order>({Order::slots, Order::channels}));
    const int convolved = b.bilinear(flat, 2 * inputs, inputs);  // depthwise
    return head(b, pooled(b, convolved));
  }

  // A residual block of floats: x + f(x), at the centers of sampled groups and in one group of the cloud.
  Network residual() {
    Builder b = start(Task::classify);
    const int points = b.points(), xyz = b.slice(points, 0, 3);
    const Groups groups = sampled_groups(b, xyz);
    int x = b.pool(b.dense(groups.offsets, narrow(), Activation::none), Pool::max, Over::neighbors, false);
    for (int i = 0; i < 2; ++i) {
      const int hidden = b.bilinear(b.sign(x), width());
      const int change = b.bilinear_float(hidden, b.channels(x), Activation::none);
      x = b.function(b.arithmetic(Op::add, x, change), Function::leaky_relu);
    }
    const int mean = b.pool(xyz, Pool::mean, Over::points, false);
    const int around = b.nearest(mean, xyz, xyz, at_most(source_.between(1, sizes_.neighbors)), 1);
    const int near = b.sign(b.arithmetic(Op::subtract, b.gather(xyz, around), b.broadcast(mean, around)));
    return head(b, b.concat({b.sign(b.pool(x, Pool::mean, Over::points, false)), pooled(b, near)}));
  }

  // Two pools in one pass, of bits with few and with many distinct rows.
  Network two_pools() {
    Builder b = start(Task::classify);
    const int points = b.points();
    const int few = b.sign(b.dense(points, source_.between(1, 4), Activation::none));
    const int many = first_bits(b, points);
    const int first = b.bilinear_pool(few, width(), Pool::max, Over::distinct, source_.one_in(2), false);
    return head(b, b.concat({first, pooled(b, many)}));
  }

  static constexpr int kCount = 11;

  Network by_number(int number) {
    switch (number % kCount) {
      case 0: return pointnet();
      case 1: return pointnet_floats();
      case 2: return pointnet_full_precision();
      case 3: return pointnet_with_transforms();
      case 4: return parts();
      case 5: return pointnet2();
      case 6: return dgcnn();
      case 7: return pointconv();
      case 8: return pointcnn();
      case 9: return two_pools();
      default: return residual();
    }
  }

 private:
  // Coordinates and bits of one set.
  struct Level {
    int xyz, bits;
  };

  struct Groups {
    int indices, offsets, centers;
  };

  Builder start(Task task) {
    Builder b(source_, source_.between(3, 7), source_.between(1, 12));
    b.network.task = task;
    return b;
  }

  static int classes(const Builder& b) { return static_cast<int>(b.network.classes.size()); }

  // Often at the borders of words and of batches of outputs.
  int width() {
    const std::vector<int> borders = {1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300};
    const int chosen = source_.one_in(2) ? source_.one_of(borders) : source_.between(1, 300);
    return std::min(chosen, sizes_.channels);
  }

  int narrow() { return std::min(width(), 40); }

  Activation activation() {
    return source_.one_of<Activation>({Activation::none, Activation::relu, Activation::hardtanh});
  }

  Over over() { return source_.one_of<Over>({Over::points, Over::neighbors, Over::distinct}); }

  int first_bits(Builder& b, int x) { return b.sign(b.dense(x, width(), activation()), source_.one_in(2) ? 0 : 0.25f); }

  int layers(Builder& b, int bits, int most) {
    for (int i = source_.between(0, most); i > 0; --i) bits = b.bilinear(bits, width());
    return bits;
  }

  int pooled(Builder& b, int bits) {
    const bool mean = source_.one_in(4);
    return b.bilinear_pool(bits, width(), mean ? Pool::mean : Pool::max, mean ? Over::points : over(),
                           !mean && source_.one_in(2), false);
  }

  Network head(Builder& b, int bits) {
    bits = layers(b, bits, 2);
    if (source_.one_in(2)) {
      b.bilinear_float(bits, classes(b), activation());
    } else {
      b.dense(b.bilinear_float(bits, width(), Activation::hardtanh), classes(b), Activation::none);
    }
    return std::move(b.network);
  }

  // The first three channels times a matrix of the cloud; the other channels stay.
  int transformed_points(Builder& b, int points) {
    const int matrix = b.plus_identity(b.bilinear_float(pooled(b, first_bits(b, points)), 9, Activation::none), 3);
    const int xyz = b.transform(b.slice(points, 0, 3), matrix, 3);
    return b.channels(points) == 3 ? xyz : b.concat({xyz, b.slice(points, 3, b.channels(points))});
  }

  SizeRule neighbors() {
    const int k = source_.between(1, sizes_.neighbors);
    return source_.one_in(2) ? exactly(k) : at_most(k);
  }

  Groups sampled_groups(Builder& b, int xyz) {
    const Order order = source_.one_of<Order>({Order::coordinates, Order::index});
    const SizeRule quarter = {0.25, Rounding::ceil, 1, 128};
    const SizeRule count = source_.one_in(2) ? at_most(source_.between(1, 128)) : quarter;
    const int centers = b.gather(xyz, b.farthest(xyz, count, order));
    const int ties = source_.one_in(2) ? xyz : kNone;
    const Order by = source_.one_of<Order>({Order::nearest, Order::index});
    const int indices = source_.one_in(3) ? b.nearest(centers, xyz, ties, neighbors(), 1)
                                          : b.ball(centers, xyz, ties, neighbors(), source_.between(1, 8) / 8.0, by);
    const int offsets = b.arithmetic(Op::subtract, b.gather(xyz, indices), b.broadcast(centers, indices));
    return {indices, offsets, centers};
  }

  Level abstraction(Builder& b, Level from) {
    const Groups groups = sampled_groups(b, from.xyz);
    const int features = b.gather(from.bits, groups.indices);
    const int bits = layers(b, b.concat({first_bits(b, groups.offsets), features}), 2);
    return {groups.centers, pooled(b, bits)};
  }

  // The bits of `fine` next to the interpolated features of `coarse`.
  int propagated(Builder& b, Level fine, Level coarse) {
    const int floats = b.bilinear_float(coarse.bits, width(), activation());
    const Guard guard = source_.one_of<Guard>({Guard::limit, Guard::add, Guard::clamp});
    const int moved = b.interpolate(fine.xyz, coarse.xyz, floats, guard, 0x1p-24f);
    return layers(b, b.concat({b.sign(moved), fine.bits}), 1);
  }

  // Floats of the points from the differences to the neighbors in x.
  int edge_features(Builder& b, int x, int ties) {
    const int indices = b.nearest(x, x, ties, neighbors(), source_.one_in(4) ? 2 : 1);
    const int center = b.broadcast(x, indices);
    const int edges = b.concat({b.arithmetic(Op::subtract, b.gather(x, indices), center), center});
    const bool binary = source_.one_in(2);
    const int codes = binary ? first_bits(b, edges) : -1;
    const int features = binary ? b.bilinear_float(codes, narrow(), activation())
                                : b.function(b.dense(edges, narrow(), Activation::none), Function::leaky_relu);
    const Over over = source_.one_of<Over>({Over::points, Over::neighbors});
    const int counted = source_.one_in(3) ? codes : -1;
    return b.pool(features, Pool::max, over, source_.one_in(2), counted);
  }

  Sizes sizes_;
  Source& source_;
};

}  // namespace bipointnet::random
