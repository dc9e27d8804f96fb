// What the reader of packed models says of a file, whole or damaged, and of JSON: for the tests of its parts.
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
#include "packed_writer.h"

namespace bipointnet {

inline Network parse(const Bytes& bytes) { return parse(bytes.data(), bytes.size()); }

// What parse() says, "" where it finds a network. Copied to a block of the exact size, so that a sanitizer sees a read
// of the byte past the end.
inline std::string error_of(const std::uint8_t* bytes, std::size_t size) {
  const std::vector<std::uint8_t> exact(bytes, bytes + size);
  try {
    parse(exact.data(), exact.size());
  } catch (const FormatError& error) {
    return *error.what() ? error.what() : "an error without a word";
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

// The message `error` has `part` in it.
#define CHECK_SAYS(error, part)                                                                  \
  do {                                                                                           \
    const std::string said = (error);                                                            \
    const bool holds = ::bipointnet::check(contains(said, part), __FILE__, __LINE__, #error);    \
    if (!holds) std::cerr << "  said     " << said << "\n  expected " << (part) << "\n";         \
  } while (false)

// The message about full_file() or small_file() after a change.
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
