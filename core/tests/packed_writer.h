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

inline std::string packed_manifest(const std::string& classes, const std::string& normalize, const std::string& program,
                                   const std::string& task = "classify") {
  return "{\"format\":1,\"model\":\"made up\",\"task\":\"" + task + "\",\"classes\":" + classes +
         ",\"channels\":3,\"normalize\":\"" + normalize + "\",\"program\":[" + program +
         "],\"golden\":{\"seed\":9007199254740991,\"points\":17,\"tolerance\":1e-4},\"training\":{\"accuracy\":0.5}}";
}

// Points, bits, a mean pool of bits, logits.
inline PackedFile small_file() {
  PackedFile file;
  file.manifest = packed_manifest("[\"a\",\"b\"]", "none",
                                  "{\"op\":\"points\"},{\"op\":\"sign\"},"
                                  "{\"op\":\"bilinear_pool\",\"outputs\":4,\"pool\":\"mean\",\"shift\":\"none\"},"
                                  "{\"op\":\"bilinear_float\",\"outputs\":2,\"activation\":\"none\"}");
  file.add_bits("2.weight", 4, 3);
  Bytes line;
  for (int row = 0; row < 4; ++row) {
    append_f32(line, static_cast<float>(row));
    append_f32(line, 0.0f);
  }
  file.add("2.line", "F32", {4, 2}, line);
  file.add_bits("3.weight", 2, 4);
  file.add_f32("3.line", {2, 2});
  file.add_f32("golden", {2});
  return file;
}

// Every operation without a scale. Rows of bits end inside a word, at its end, and one bit after it.
inline PackedFile full_file() {
  PackedFile file;
  file.manifest = packed_manifest(
      "[\"chair\",\"t\\u00e4sse\"]", "sphere",
      "{\"op\":\"points\"},{\"op\":\"dense\",\"outputs\":9,\"activation\":\"relu\"},"
      "{\"op\":\"pool\",\"pool\":\"mean\"},{\"op\":\"matrix\",\"size\":3},{\"op\":\"points\"},"
      "{\"op\":\"transform\",\"matrix\":0},"
      "{\"op\":\"dense\",\"outputs\":70,\"activation\":\"hardtanh\"},{\"op\":\"sign\"},"
      "{\"op\":\"bilinear\",\"outputs\":65},"
      "{\"op\":\"bilinear_pool\",\"outputs\":64,\"pool\":\"max\",\"shift\":\"delta\"},"
      "{\"op\":\"bilinear\",\"outputs\":5},{\"op\":\"bilinear_float\",\"outputs\":4,\"activation\":\"hardtanh\"},"
      "{\"op\":\"dense\",\"outputs\":2,\"activation\":\"none\"}");
  // 1, -2, the largest, the smallest normal, the smallest and the largest subnormal, 0, -0, -(the smallest subnormal)
  file.add_f16("1.weight", {9, 3}, {0x3C00, 0xC000, 0x7BFF, 0x0400, 0x0001, 0x03FF, 0x0000, 0x8000, 0x8001});
  file.add_f32("1.bias", {9});
  file.add_f32("6.weight", {70, 3});
  file.add_f32("6.bias", {70});
  file.add_bits("8.weight", 65, 70);
  file.add_thresholds("8.threshold", 65, 70);
  file.add_bits("9.weight", 64, 65);
  file.add_f64("9.line", {64, 2});
  file.add_bits("10.weight", 5, 64);
  file.add_thresholds("10.threshold", 5, 64);
  file.add_bits("11.weight", 4, 5);
  file.add_f32("11.line", {4, 2});
  file.add_f32("12.weight", {2, 4});
  file.add_f32("12.bias", {2});
  file.add_f32("golden", {2});
  return file;
}

// Kept values of every kind, a category and a join: logits per point.
inline PackedFile segments_file() {
  PackedFile file;
  const std::string keep = "{\"op\":\"keep\"},", category = "{\"op\":\"category\"},";
  file.manifest = packed_manifest(
      "[\"a\",\"b\"]", "none",
      "{\"op\":\"points\"}," + keep + "{\"op\":\"sign\"},{\"op\":\"bilinear\",\"outputs\":5}," + keep +
          "{\"op\":\"bilinear_pool\",\"outputs\":70,\"pool\":\"max\",\"shift\":\"none\"}," + keep + category + keep +
          "{\"op\":\"join\",\"kept\":[4,2,0,1]},{\"op\":\"bilinear_float\",\"outputs\":2,\"activation\":\"none\"}",
      "part");
  file.manifest = replaced(file.manifest, ",\"channels\"",
                           ",\"categories\":[\"mug\",\"l\\u00e4mp\",\"x\"],\"parts\":[[0,1],[0,1],[0]],\"channels\"");
  file.add_bits("3.weight", 5, 3);
  file.add_thresholds("3.threshold", 5, 3);
  file.add_bits("5.weight", 70, 5);
  file.add_f32("5.line", {70, 2});
  file.add_thresholds("5.threshold", 70, 5);
  file.add_bits("10.weight", 2, 81);
  file.add_f32("10.line", {2, 2});
  file.add_f32("golden", {17, 2});
  return file;
}

// The operations of methods whose bits have a threshold or a scale.
inline PackedFile scaled_file() {
  PackedFile file;
  file.manifest = packed_manifest(
      "[\"a\",\"b\"]", "none",
      "{\"op\":\"points\"},{\"op\":\"compare\",\"at\":0.25},"
      "{\"op\":\"bilinear_float\",\"outputs\":9,\"activation\":\"hardtanh\"},{\"op\":\"sign_scaled\"},"
      "{\"op\":\"bilinear_scaled\",\"outputs\":70,\"activation\":\"none\"},{\"op\":\"pool\",\"pool\":\"max\"},"
      "{\"op\":\"shift\"},{\"op\":\"sign_scaled\"},"
      "{\"op\":\"bilinear_scaled\",\"outputs\":2,\"activation\":\"relu\"}");
  file.add_bits("2.weight", 9, 3);
  file.add_f32("2.line", {9, 2});
  file.add_bits("4.weight", 70, 9);
  file.add_f32("4.line", {70, 2});
  file.add_bits("8.weight", 2, 70);
  file.add_f32("8.line", {2, 2});
  file.add_f32("golden", {2});
  return file;
}

}  // namespace bipointnet
