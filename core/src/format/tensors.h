// The container of a packed model: a safetensors file with the strict profile of docs/format.md. A JSON header, then
// the bytes of the tensors without gaps or overlaps. The last tensor is the checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/json.h"

namespace bipointnet {

enum class Dtype { u64, i16, f16, f32, f64 };

std::string name_of(Dtype dtype);  // "F32"

using Shape = std::vector<std::uint64_t>;

// The tensors of a file. Each of them must be used.
class Tensors {
 public:
  // Reads the header of a file of which the first `size` bytes are given, and sets `manifest` to the text of the
  // manifest. The bytes must outlive this object. Throws FormatError, as all functions of this class do.
  Tensors(const std::uint8_t* bytes, std::size_t size, std::string& manifest);

  // The size of the file, as the header says.
  std::uint64_t file_size() const { return header_size_ + body_size_; }

  // Checks the size of the file and its checksum, given all its bytes. To be called before any tensor is read.
  void check_file(const std::uint8_t* bytes, std::size_t size);

  // Rows of `columns` bits each.
  std::vector<std::uint64_t> bits(const std::string& name, int rows, int columns);

  // Thresholds from 0 to inputs + 1; counts never reach inputs + 1.
  std::vector<std::int16_t> thresholds(const std::string& name, int rows, int inputs);

  // Float (float or double) is at least as wide as the widest of `dtypes`, so every number is converted exactly.
  template <class Float>
  std::vector<Float> floats(const std::string& name, const std::vector<Dtype>& dtypes, const Shape& shape);

  void expect_all_used() const;

 private:
  struct Tensor {
    Dtype dtype{};
    Shape shape;
    std::uint64_t begin = 0;  // an offset into the bytes after the header
    std::uint64_t end = 0;
    bool used = false;
  };
  using Named = std::pair<const std::string, Tensor>;

  void read_header(std::string_view header, std::string& manifest);
  void add(const std::string& name, const JsonValue& entry);
  void check_layout();
  const Tensor& take(const std::string& name, const std::vector<Dtype>& dtypes, const Shape& shape,
                     const std::string& reason);
  static std::size_t count_of(const Tensor& tensor);
  const std::uint8_t* at(const Tensor& tensor, std::size_t i) const;

  std::uint64_t header_size_ = 0;  // with its length
  std::uint64_t body_size_ = 0;
  const std::uint8_t* body_ = nullptr;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace bipointnet
