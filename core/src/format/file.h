// Reads the file of a packed model.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace bipointnet {

// The operating system cannot read a file; what() is its reason.
struct FileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The bytes of a packed model. The header is checked first; after a wrong one, or if the file has another size than it
// says, nothing else is read. Of a pipe that is too long one byte too many is returned, which parse() refuses. Throws
// FileError and FormatError.
std::vector<std::uint8_t> read_packed_file(const std::string& path);

}  // namespace bipointnet
