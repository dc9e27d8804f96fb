#include "format/file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "format/network.h"

namespace bipointnet {
namespace {

constexpr std::size_t kPart = std::size_t{1} << 20;

// Appends bytes of the file until there are `size`, or until it ends. Memory grows with what is read: a header cannot
// demand more than the file has.
void read_up_to(std::FILE* file, std::uint64_t size, std::vector<std::uint8_t>& bytes) {
  while (bytes.size() < size) {
    const std::size_t start = bytes.size();
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(kPart, size - start));
    bytes.resize(start + part);
    errno = 0;
    const std::size_t count = std::fread(bytes.data() + start, 1, part, file);
    bytes.resize(start + count);
    if (std::ferror(file)) throw FileError(std::strerror(errno));
    if (count < part) return;
  }
}

}  // namespace

std::vector<std::uint8_t> read_packed_file(const std::string& path) {
  if (path.find('\0') != path.npos) throw FileError("a name with the character NUL");
  errno = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) throw FileError(std::strerror(errno));
  std::setvbuf(file.get(), nullptr, _IONBF, 0);  // the parts are large, and no byte is read before it is needed
  std::vector<std::uint8_t> bytes;
  read_up_to(file.get(), kLengthSize, bytes);
  read_up_to(file.get(), header_size(bytes.data(), bytes.size()), bytes);
  const std::uint64_t size = file_size(bytes.data(), bytes.size());
  // A pipe has no size: it is read to its end.
  std::error_code unknown;
  const std::uintmax_t found = std::filesystem::file_size(path, unknown);
  if (!unknown) check_file_size(found, size);
  read_up_to(file.get(), size + 1, bytes);
  return bytes;
}

}  // namespace bipointnet
