// Writes packed models for the tests. A test may damage the parts first: nothing is checked here, and the checksum is
// correct for any bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace bipointnet {

using Bytes = std::vector<std::uint8_t>;

template <class Word>
void append_word(Bytes& bytes, Word word) {
  for (std::size_t i = 0; i < sizeof(Word); ++i) bytes.push_back(static_cast<std::uint8_t>(word >> 8 * i));
}

inline void append_f32(Bytes& bytes, float value) {
  std::uint32_t word = 0;
  std::memcpy(&word, &value, sizeof word);
  append_word(bytes, word);
}

inline void append_f64(Bytes& bytes, double value) {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof word);
  append_word(bytes, word);
}

// A string as JSON.
inline std::string json_string(const std::string& text) {
  constexpr const char* hex = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') json += '\\';
    if (byte < 0x20) {
      json += std::string("\\u00") + hex[byte >> 4] + hex[byte & 15];
    } else {
      json += c;
    }
  }
  return json + '"';
}

// `text` with `from` replaced by `to`. Throws if `from` is missing: such a test would test nothing.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("no " + from + " in " + text);
  return text.replace(at, from.size(), to);
}

inline std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// CRC-32 as docs/format.md defines it, byte by byte. The core has a faster form.
inline std::uint32_t crc32_by_definition(const std::uint8_t* bytes, std::size_t size) {
  static const std::vector<std::uint32_t> rests = [] {
    std::vector<std::uint32_t> rests;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t rest = byte;
      for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? 0xEDB88320 : 0);
      rests.push_back(rest);
    }
    return rests;
  }();
  std::uint32_t rest = 0xFFFFFFFF;
  for (std::size_t i = 0; i < size; ++i) rest = rest >> 8 ^ rests[(rest ^ bytes[i]) & 255];
  return ~rest;
}

constexpr std::size_t kChecksumBytes = 8;

// Writes the checksum of all bytes before it into the last 8 bytes.
inline void sign(Bytes& bytes) {
  if (bytes.size() < kChecksumBytes) return;
  bytes.resize(bytes.size() - kChecksumBytes);
  append_word(bytes, std::uint64_t{crc32_by_definition(bytes.data(), bytes.size())});
}

// A file whose body ends with 8 bytes for the checksum.
inline Bytes assembled(std::string header, const Bytes& body) {
  while (header.size() % 8 != 0) header += ' ';
  Bytes bytes;
  append_word(bytes, std::uint64_t{header.size()});
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  if (body.size() >= kChecksumBytes) sign(bytes);
  return bytes;
}

struct PackedTensor {
  std::string name;
  std::string dtype;
  std::string shape;  // JSON
  Bytes bytes;
};

struct PackedFile {
  std::string manifest;
  std::vector<PackedTensor> tensors;

  PackedTensor& tensor(const std::string& name) {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&name](const PackedTensor& t) { return t.name == name; });
    if (found == tensors.end()) throw std::logic_error("no tensor " + name);
    return *found;
  }

  void remove(const std::string& name) { tensors.erase(tensors.begin() + (&tensor(name) - tensors.data())); }

  std::string header() const {
    std::string header = "{\"__metadata__\":{\"bipointnet\":" + json_string(manifest) + "}";
    std::size_t begin = 0;
    for (const PackedTensor& tensor : tensors) {
      const std::size_t end = begin + tensor.bytes.size();
      header += "," + json_string(tensor.name) + ":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":" + tensor.shape +
                ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
      begin = end;
    }
    return header + ",\"checksum\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[" + std::to_string(begin) + "," +
           std::to_string(begin + kChecksumBytes) + "]}}";
  }

  Bytes body() const {
    Bytes body;
    for (const PackedTensor& tensor : tensors) body.insert(body.end(), tensor.bytes.begin(), tensor.bytes.end());
    body.resize(body.size() + kChecksumBytes);
    return body;
  }

  Bytes bytes() const { return assembled(header(), body()); }

  // Tensors with synthetic contents. Word w of row r is pattern(r, w); pad bits are zero.
  void add_bits(const std::string& name, int rows, int columns) {
    const int words = (columns + 63) / 64;
    Bytes bytes;
    for (int row = 0; row < rows; ++row) {
      for (int word = 0; word < words; ++word) {
        const int used = std::min(64, columns - 64 * word);
        append_word(bytes, pattern(row, word) & ~std::uint64_t{0} >> (64 - used));
      }
    }
    add(name, "U64", {rows, words}, bytes);
  }

  static std::uint64_t pattern(int row, int word) {
    return 0x9E3779B97F4A7C15u * static_cast<std::uint64_t>(1 + row * 1000 + word);
  }

  void add_thresholds(const std::string& name, int rows, int inputs) {
    Bytes bytes;
    for (int row = 0; row < rows; ++row) append_word(bytes, static_cast<std::uint16_t>(row % (inputs + 2)));
    add(name, "I16", {rows}, bytes);
  }

  // Number i is (i - 3) / 4: exact in every dtype for small i.
  static double number(int i) { return (i - 3) / 4.0; }

  void add_f16(const std::string& name, const std::vector<int>& shape, const std::vector<std::uint16_t>& halves) {
    Bytes bytes;
    for (int i = 0; i < product(shape); ++i) append_word(bytes, halves[static_cast<std::size_t>(i) % halves.size()]);
    add(name, "F16", shape, bytes);
  }

  void add_f32(const std::string& name, const std::vector<int>& shape) {
    Bytes bytes;
    for (int i = 0; i < product(shape); ++i) append_f32(bytes, static_cast<float>(number(i)));
    add(name, "F32", shape, bytes);
  }

  void add_f64(const std::string& name, const std::vector<int>& shape) {
    Bytes bytes;
    for (int i = 0; i < product(shape); ++i) append_f64(bytes, number(i));
    add(name, "F64", shape, bytes);
  }

  void add(const std::string& name, const std::string& dtype, const std::vector<int>& shape, const Bytes& bytes) {
    std::string text;
    for (const int size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
    tensors.push_back({name, dtype, "[" + text + "]", bytes});
  }

  static int product(const std::vector<int>& shape) {
    int product = 1;
    for (const int size : shape) product *= size;
    return product;
  }
};

// An operation as JSON; `fields` is the rest of its members, such as "\"outputs\":4".
inline std::string operation(const std::string& op, const std::vector<std::string>& in,
                             const std::vector<std::string>& out, const std::string& fields = "") {
  const auto names = [](const std::vector<std::string>& values) {
    std::string text;
    for (const std::string& value : values) text += (text.empty() ? "" : ",") + json_string(value);
    return "[" + text + "]";
  };
  return "{\"op\":" + json_string(op) + ",\"in\":" + names(in) + ",\"out\":" + names(out) +
         (fields.empty() ? "" : "," + fields) + "}";
}

// A program of operations that operation() wrote.
inline std::string program(const std::vector<std::string>& operations) {
  std::string text;
  for (const std::string& operation : operations) text += (text.empty() ? "" : ",") + operation;
  return text;
}

// The field `count`: at most `most` elements, or exactly that many.
inline std::string count_up_to(int most, double factor = 1.0) {
  return "\"count\":{\"factor\":" + std::to_string(factor) +
         ",\"round\":\"floor\",\"least\":1,\"most\":" + std::to_string(most) + "}";
}

inline std::string count_of(int number) {
  const std::string text = std::to_string(number);
  return "\"count\":{\"factor\":0.0,\"round\":\"floor\",\"least\":" + text + ",\"most\":" + text + "}";
}

inline std::string packed_manifest(const std::string& classes, const std::string& normalize, const std::string& program,
                                   const std::string& task = "classify") {
  return "{\"format\":2,\"model\":\"made up\",\"task\":\"" + task + "\",\"classes\":" + classes +
         ",\"channels\":3,\"normalize\":\"" + normalize + "\",\"program\":[" + program +
         "],\"golden\":{\"seed\":9007199254740991,\"points\":17,\"tolerance\":1e-4},\"training\":{\"accuracy\":0.5}}";
}

// Points, bits, a mean pool of bits, logits.
inline PackedFile small_file() {
  PackedFile file;
  file.manifest = packed_manifest(
      "[\"a\",\"b\"]", "none",
      program(
          {operation("points", {}, {"points"}), operation("sign", {"points"}, {"signs"}, "\"at\":0"),
           operation("bilinear_pool", {"signs"}, {"pooled"},
                     "\"outputs\":4,\"pool\":\"mean\",\"over\":\"points\",\"shift\":\"none\""),
           operation("bilinear_float", {"pooled"}, {"logits"}, "\"outputs\":2,\"activation\":\"none\",\"groups\":1")}));
  file.add_bits("pooled.weight", 4, 3);
  Bytes line;
  for (int row = 0; row < 4; ++row) {
    append_f32(line, static_cast<float>(row));
    append_f32(line, 0.0f);
  }
  file.add("pooled.line", "F32", {4, 2}, line);
  file.add_bits("logits.weight", 2, 4);
  file.add_f32("logits.line", {2, 2});
  file.add_f32("golden", {2});
  return file;
}

// A PointNet with a transform of its input. Rows of bits end inside a word, at its end, and one bit after it.
inline PackedFile full_file() {
  PackedFile file;
  file.manifest = packed_manifest(
      "[\"chair\",\"t\\u00e4sse\"]", "sphere",
      program(
          {operation("points", {}, {"points"}),
           operation("dense", {"points"}, {"tnet"}, "\"outputs\":9,\"activation\":\"relu\",\"groups\":1"),
           operation("pool", {"tnet"}, {"matrix"}, "\"pool\":\"mean\",\"over\":\"points\",\"shift\":\"none\""),
           operation("transform", {"points", "matrix"}, {"aligned"}, "\"outputs\":3"),
           operation("dense", {"aligned"}, {"first"}, "\"outputs\":70,\"activation\":\"hardtanh\",\"groups\":1"),
           operation("sign", {"first"}, {"signs"}, "\"at\":0"),
           operation("bilinear", {"signs"}, {"hidden"}, "\"outputs\":65,\"groups\":1"),
           operation("bilinear_pool", {"hidden"}, {"pooled"},
                     "\"outputs\":64,\"pool\":\"max\",\"over\":\"points\",\"shift\":\"delta\""),
           operation("bilinear", {"pooled"}, {"head"}, "\"outputs\":5,\"groups\":1"),
           operation("bilinear_float", {"head"}, {"floats"}, "\"outputs\":4,\"activation\":\"hardtanh\",\"groups\":1"),
           operation("dense", {"floats"}, {"logits"}, "\"outputs\":2,\"activation\":\"none\",\"groups\":1")}));
  // 1, -2, the largest, the smallest normal, the smallest and the largest subnormal, 0, -0, -(the smallest subnormal)
  file.add_f16("tnet.weight", {9, 3}, {0x3C00, 0xC000, 0x7BFF, 0x0400, 0x0001, 0x03FF, 0x0000, 0x8000, 0x8001});
  file.add_f32("tnet.bias", {9});
  file.add_f32("first.weight", {70, 3});
  file.add_f32("first.bias", {70});
  file.add_bits("hidden.weight", 65, 70);
  file.add_thresholds("hidden.threshold", 65, 70);
  file.add_bits("pooled.weight", 64, 65);
  file.add_f64("pooled.line", {64, 2});
  file.add_bits("head.weight", 5, 64);
  file.add_thresholds("head.threshold", 5, 64);
  file.add_bits("floats.weight", 4, 5);
  file.add_f32("floats.line", {4, 2});
  file.add_f32("logits.weight", {2, 4});
  file.add_f32("logits.bias", {2});
  file.add_f32("golden", {2});
  return file;
}

// Bits of points, of the cloud and of the category, joined per point: logits per point.
inline PackedFile segments_file() {
  PackedFile file;
  file.manifest = packed_manifest(
      "[\"a\",\"b\"]", "none",
      program(
          {operation("points", {}, {"points"}), operation("sign", {"points"}, {"signs"}, "\"at\":0"),
           operation("bilinear", {"signs"}, {"first"}, "\"outputs\":5,\"groups\":1"),
           operation("bilinear_pool", {"first"}, {"pooled", "local"},
                     "\"outputs\":70,\"pool\":\"max\",\"over\":\"distinct\",\"shift\":\"none\""),
           operation("category", {}, {"category"}), operation("concat", {"category", "pooled"}, {"global"}),
           operation("broadcast", {"global", "points"}, {"everywhere"}),
           operation("concat", {"everywhere", "local", "signs", "first"}, {"joined"}),
           operation("bilinear_float", {"joined"}, {"logits"}, "\"outputs\":2,\"activation\":\"none\",\"groups\":1")}),
      "part");
  file.manifest = replaced(file.manifest, ",\"channels\"",
                           ",\"categories\":[\"mug\",\"l\\u00e4mp\",\"x\"],\"parts\":[[0,1],[0,1],[0]],\"channels\"");
  file.add_bits("first.weight", 5, 3);
  file.add_thresholds("first.threshold", 5, 3);
  file.add_bits("pooled.weight", 70, 5);
  file.add_f32("pooled.line", {70, 2});
  file.add_thresholds("pooled.threshold", 70, 5);
  file.add_bits("logits.weight", 2, 151);
  file.add_f32("logits.line", {2, 2});
  file.add_f32("golden", {17, 2});
  return file;
}

// The operations of methods whose bits have a threshold or a scale, in blocks of channels.
inline PackedFile scaled_file() {
  PackedFile file;
  file.manifest = packed_manifest(
      "[\"a\",\"b\"]", "none",
      program(
          {operation("points", {}, {"points"}), operation("sign", {"points"}, {"signs"}, "\"at\":0.25"),
           operation("bilinear_float", {"signs"}, {"first"}, "\"outputs\":9,\"activation\":\"hardtanh\",\"groups\":3"),
           operation("mean_abs", {"first"}, {"scale"}, "\"groups\":3"),
           operation("sign", {"first"}, {"bits"}, "\"at\":0"),
           operation("bilinear_float", {"bits", "scale"}, {"second"},
                     "\"outputs\":72,\"activation\":\"none\",\"groups\":3"),
           operation("pool", {"second"}, {"pooled"}, "\"pool\":\"max\",\"over\":\"points\",\"shift\":\"delta\""),
           operation("mean_abs", {"pooled"}, {"size"}, "\"groups\":1"),
           operation("sign", {"pooled"}, {"head"}, "\"at\":-0.5"),
           operation("bilinear_float", {"head", "size"}, {"logits"},
                     "\"outputs\":2,\"activation\":\"relu\",\"groups\":1")}));
  file.add_bits("first.weight", 9, 1);
  file.add_f32("first.line", {9, 2});
  file.add_bits("second.weight", 72, 3);
  file.add_f32("second.line", {72, 2});
  file.add_bits("logits.weight", 2, 72);
  file.add_f32("logits.line", {2, 2});
  file.add_f32("golden", {2});
  return file;
}

// Sets, groups and every operation on them: logits per point.
inline PackedFile groups_file() {
  PackedFile file;
  file.manifest = packed_manifest(
      "[\"a\",\"b\"]", "none",
      program(
          {operation("points", {}, {"points"}),
           operation("farthest", {"points"}, {"chosen"}, count_up_to(8, 0.5) + ",\"order\":\"coordinates\""),
           operation("gather", {"points", "chosen"}, {"centers"}),
           operation("nearest", {"centers", "points", "points"}, {"near"}, count_of(4) + ",\"dilation\":2"),
           operation("gather", {"points", "near"}, {"neighbors"}),
           operation("broadcast", {"centers", "near"}, {"repeated"}),
           operation("subtract", {"neighbors", "repeated"}, {"offsets"}),
           operation("dense", {"offsets"}, {"lifted"}, "\"outputs\":4,\"activation\":\"none\",\"groups\":1"),
           operation("flatten", {"lifted"}, {"matrix"}, "\"order\":\"channels\""),
           operation("mix", {"matrix", "lifted"}, {"mixed"}),
           operation("function", {"mixed"}, {"weights"}, "\"function\":\"leaky_relu\",\"slope\":0.1"),
           operation("outer", {"weights", "offsets"}, {"products"}),
           operation("ball", {"centers", "points"}, {"inside"}, count_up_to(6) + ",\"radius\":0.5,\"order\":\"index\""),
           operation("gather", {"points", "inside"}, {"members"}),
           operation("pool", {"members"}, {"means"}, "\"pool\":\"sum\",\"over\":\"neighbors\",\"shift\":\"none\""),
           operation("size", {"inside"}, {"number"}, "\"over\":\"neighbors\""),
           operation("divide", {"means", "number"}, {"middle"}),
           operation("density", {"centers"}, {"crowd"}, "\"bandwidth\":0.125"),
           operation("multiply", {"crowd", "middle"}, {"heavy"}),
           operation("add", {"heavy", "centers"}, {"moved"}),
           operation("concat", {"products", "moved"}, {"wide"}),
           operation("affine", {"wide"}, {"scaled"}, "\"activation\":\"relu\""),
           operation("slice", {"scaled"}, {"narrow"}, "\"from\":2,\"to\":14"),
           operation("interpolate", {"points", "centers", "narrow"}, {"back"},
                     "\"guard\":\"add\",\"epsilon\":0.0009765625"),
           operation("dense", {"back"}, {"logits"}, "\"outputs\":2,\"activation\":\"none\",\"groups\":2")}),
      "semantic");
  file.add_f32("lifted.weight", {4, 3});
  file.add_f32("lifted.bias", {4});
  file.add_f32("scaled.line", {15, 2});
  file.add_f32("logits.weight", {2, 6});
  file.add_f32("logits.bias", {2});
  file.add_f32("golden", {17, 2});
  return file;
}

}  // namespace bipointnet
