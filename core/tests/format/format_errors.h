// The error messages of the reader of packed models and of the JSON reader, for the tests of both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "check.h"
#include "format/json.h"
#include "format/network.h"
#include "format/text.h"
#include "packed_writer.h"

namespace bipointnet {

inline Network parse(const Bytes& bytes) { return parse(bytes.data(), bytes.size()); }

// The message of parse(), or "" if it succeeds. The bytes are copied to memory of the exact size, so that a sanitizer
// detects a read after the end.
inline std::string error_of(const std::uint8_t* bytes, std::size_t size) {
  const std::vector<std::uint8_t> exact(bytes, bytes + size);
  try {
    parse(exact.data(), exact.size());
  } catch (const FormatError& error) {
    return *error.what() ? error.what() : "an empty message";
  }
  return "";
}

inline std::string error_of(const Bytes& bytes) { return error_of(bytes.data(), bytes.size()); }

inline std::string json_error_of(const std::string& text) {
  try {
    Json json(text, "text");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The message `error` contains `part`.
#define CHECK_ERROR(error, part)                                                                 \
  do {                                                                                           \
    const std::string message = (error);                                                         \
    const bool holds = ::bipointnet::check(contains(message, part), __FILE__, __LINE__, #error); \
    if (!holds) std::cerr << "  found    " << message << "\n  expected " << (part) << "\n";      \
  } while (false)

// Flips bits of a file one after the other. About one flip per byte is tried as it is: each is refused. Every flip in
// the header is tried with a new checksum: it gives a network or an error, no crash.
inline void check_every_flipped_bit(const PackedFile& file) {
  Bytes bytes = file.bytes();
  const std::size_t end = bytes.size() - file.body().size();
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += kSmallMemory ? 3 : 1) {
    const bool in_header = bit < 8 * end, tried = bit % 9 == 0;
    if (!in_header && !tried) continue;
    const auto flip = [&] { bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] ^ 1u << bit % 8); };
    flip();
    if (tried && error_of(bytes).empty()) CHECK_EQUAL("flipped bit " + std::to_string(bit), "refused");
    if (in_header) {
      Bytes with_checksum = bytes;
      sign(with_checksum);
      error_of(with_checksum);
    }
    flip();
  }
  CHECK_EQUAL(error_of(bytes), "");
}

// The message for a file after a change.
inline std::string error_after(PackedFile file, const std::function<void(PackedFile&)>& change) {
  change(file);
  return error_of(file.bytes());
}

inline std::string error_after_manifest(const PackedFile& file, const std::string& from, const std::string& to) {
  return error_after(file, [&](PackedFile& f) { f.manifest = replaced(f.manifest, from, to); });
}

inline std::string error_after_header(const PackedFile& file, const std::string& from, const std::string& to) {
  return error_of(assembled(replaced(file.header(), from, to), file.body()));
}

}  // namespace bipointnet
