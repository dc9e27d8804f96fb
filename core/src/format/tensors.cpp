#include "format/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "format/bits.h"
#include "format/checksum.h"
#include "format/fields.h"
#include "format/network.h"
#include "format/text.h"

namespace bipointnet {
namespace {

constexpr std::uint64_t kMaxHeader = 16u << 20;
constexpr std::uint64_t kHeaderAlignment = 8;
constexpr std::size_t kChecksumSize = 8;
constexpr const char* kChecksum = "checksum";

template <class Word>
Word little_endian(const std::uint8_t* bytes) {
  Word word = 0;
  for (std::size_t i = 0; i < sizeof(Word); ++i) word = static_cast<Word>(word | static_cast<Word>(bytes[i]) << 8 * i);
  return word;
}

template <class Float, class Word>
Float reinterpret(Word word) {
  static_assert(sizeof(Float) == sizeof(Word));
  Float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// F16 has 5 bits of exponent with bias 15 and 10 of fraction, F32 has 8 with bias 127 and 23. Numbers below 2^-14 have
// exponent 0 and are multiples of 2^-24; float32 holds them all.
float widened(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half >> 15) << 31;
  const std::uint32_t exponent = half >> 10 & 31;
  const std::uint32_t fraction = half & 1023;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent - 15 + 127;
  return reinterpret<float>(sign | wide << 23 | fraction << 13);
}

std::size_t bytes_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::i16:
    case Dtype::f16: return 2;
    case Dtype::f32: return 4;
    default: return 8;
  }
}

double float_at(const std::uint8_t* bytes, Dtype dtype) {
  if (dtype == Dtype::f16) return widened(little_endian<std::uint16_t>(bytes));
  if (dtype == Dtype::f32) return reinterpret<float>(little_endian<std::uint32_t>(bytes));
  return reinterpret<double>(little_endian<std::uint64_t>(bytes));
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (const std::uint64_t size : shape) text += (text.empty() ? "" : ", ") + decimal(size);
  return "[" + text + "]";
}

std::uint64_t size_of(int count) { return static_cast<std::uint64_t>(count); }

Shape sizes(const Fields& fields, const std::string& key, std::int64_t low, std::int64_t high) {
  Shape sizes;
  for (const JsonValue& item : fields.list(key, low, high)) {
    const auto size = item.integer();
    if (!size || *size < 0) {
      fail(fields.what, key + " with " + item.describe(), "integers from " + range(0, kMaxInteger));
    }
    sizes.push_back(static_cast<std::uint64_t>(*size));
  }
  return sizes;
}

std::string_view header_of(const std::uint8_t* bytes, std::size_t size) {
  const std::uint64_t end = header_size(bytes, size);
  if (size < end) check_file_size(size, end);  // at least so many
  const char* text = reinterpret_cast<const char*>(bytes + kLengthSize);
  if (end == kLengthSize || text[0] != '{') fail("header", "no '{' at its start", "a JSON object");
  return {text, static_cast<std::size_t>(end) - kLengthSize};
}

std::string manifest_of(const JsonValue& metadata) {
  const Fields fields(metadata, "__metadata__");
  fields.expect_keys({"bipointnet"});
  return fields.string("bipointnet");
}

// The product of the shape is compared with the number of bytes at every step, so it cannot overflow.
void check_size(const std::string& what, Dtype dtype, const Shape& shape, std::uint64_t bytes) {
  std::uint64_t need = bytes_of(dtype);
  for (const std::uint64_t size : shape) {
    if (size > 0 && need > bytes / size) {
      fail(what, decimal(bytes) + " bytes", "more for shape " + text_of(shape) + " of " + name_of(dtype));
    }
    need *= size;
  }
  if (need != bytes) {
    fail(what, decimal(bytes) + " bytes", decimal(need) + " for shape " + text_of(shape) + " of " + name_of(dtype));
  }
}

std::string hexadecimal(std::uint64_t value) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[value >> shift & 15];
  const std::size_t first = text.find_first_not_of('0');
  return "0x" + (first == text.npos ? "0" : text.substr(first));
}

}  // namespace

std::string name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::u64: return "U64";
    case Dtype::i16: return "I16";
    case Dtype::f16: return "F16";
    case Dtype::f32: return "F32";
    default: return "F64";
  }
}

void check_file_size(std::uint64_t found, std::uint64_t expected) {
  if (found < expected) fail("file", "cut short after " + decimal(found) + " bytes", decimal(expected));
  if (found > expected) fail("file", "more bytes than its header describes", decimal(expected));
}

std::uint64_t header_size(const std::uint8_t* bytes, std::size_t size) {
  if (size < kLengthSize) check_file_size(size, kLengthSize);
  const auto length = little_endian<std::uint64_t>(bytes);
  if (length > kMaxHeader) fail("header", "length " + decimal(length), "at most " + decimal(kMaxHeader) + ", as in a packed model");
  if (length % kHeaderAlignment != 0) fail("header", "length " + decimal(length), "a multiple of 8");
  return kLengthSize + length;
}

Tensors::Tensors(const std::uint8_t* bytes, std::size_t size, std::string& manifest) {
  const std::string_view header = header_of(bytes, size);
  header_size_ = kLengthSize + header.size();
  body_ = bytes + kLengthSize + header.size();
  read_header(header, manifest);
  check_layout();
  if (take(kChecksum, {Dtype::u64}, {1}, "").end != body_size_) {
    fail(kChecksum, "a tensor before the end of the file", "the last tensor");
  }
}

void Tensors::check_file(const std::uint8_t* bytes, std::size_t size) {
  check_file_size(size, file_size());
  const std::size_t end = size - kChecksumSize;
  const std::uint64_t found = crc32(bytes, end), expected = little_endian<std::uint64_t>(bytes + end);
  if (found != expected) fail(kChecksum, hexadecimal(found) + " over the bytes of the file", hexadecimal(expected));
}

void Tensors::read_header(std::string_view header, std::string& manifest) {
  const Json json(header, "header");
  bool found = false;
  for (const auto& [name, value] : json.root().members()) {
    if (name == "__metadata__") {
      manifest = manifest_of(value);
      found = true;
    } else {
      add(name, value);
    }
  }
  if (!found) fail("header", "no key __metadata__", "this key");
}

void Tensors::add(const std::string& name, const JsonValue& entry) {
  const Fields fields(entry, printable(name));
  fields.expect_keys({"dtype", "shape", "data_offsets"});
  Tensor tensor;
  tensor.dtype = fields.choice<Dtype>(
      "dtype",
      {{"U64", Dtype::u64}, {"I16", Dtype::i16}, {"F16", Dtype::f16}, {"F32", Dtype::f32}, {"F64", Dtype::f64}});
  tensor.shape = sizes(fields, "shape", 1, 2);
  const Shape offsets = sizes(fields, "data_offsets", 2, 2);
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  if (tensor.begin > tensor.end) fail(fields.what, "data_offsets " + text_of(offsets), "an ascending range");
  check_size(fields.what, tensor.dtype, tensor.shape, tensor.end - tensor.begin);
  tensors_.emplace(name, std::move(tensor));
}

// Sorted by their offsets, every tensor begins where the one before ends. The last one ends at the end of the file.
void Tensors::check_layout() {
  std::vector<const Named*> order;
  for (const Named& named : tensors_) order.push_back(&named);
  std::sort(order.begin(), order.end(), [](const Named* a, const Named* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  std::uint64_t& end = body_size_;
  std::string before = "the header";
  for (const Named* named : order) {
    const Tensor& tensor = named->second;
    if (tensor.begin != end) {
      fail(printable(named->first),
           std::string(tensor.begin < end ? "overlap" : "gap") + ", begins at byte " + decimal(tensor.begin),
           "byte " + decimal(end) + ", where " + before + " ends");
    }
    end = tensor.end;
    before = printable(named->first);
  }
}

void Tensors::expect_all_used() const {
  for (const auto& [name, tensor] : tensors_) {
    if (!tensor.used) fail(printable(name), "tensor that no operation uses", "only tensors that are used");
  }
}

const Tensors::Tensor& Tensors::take(const std::string& name, const std::vector<Dtype>& dtypes, const Shape& shape,
                                     const std::string& reason) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail(name, "missing tensor", "one of shape " + text_of(shape) + reason);
  Tensor& tensor = found->second;
  if (std::find(dtypes.begin(), dtypes.end(), tensor.dtype) == dtypes.end()) {
    std::vector<std::string> names;
    for (const Dtype dtype : dtypes) names.push_back(name_of(dtype));
    fail(name, "dtype " + name_of(tensor.dtype), alternatives(names));
  }
  if (tensor.shape != shape) fail(name, "shape " + text_of(tensor.shape), text_of(shape) + reason);
  tensor.used = true;
  return tensor;
}

std::size_t Tensors::count_of(const Tensor& tensor) {
  return static_cast<std::size_t>((tensor.end - tensor.begin) / bytes_of(tensor.dtype));
}

const std::uint8_t* Tensors::at(const Tensor& tensor, std::size_t i) const {
  return body_ + tensor.begin + i * bytes_of(tensor.dtype);
}

std::vector<std::uint64_t> Tensors::bits(const std::string& name, int rows, int columns) {
  const std::size_t words = words_for(static_cast<std::size_t>(columns));
  const Tensor& tensor = take(name, {Dtype::u64}, {size_of(rows), words}, " for K = " + std::to_string(columns));
  const std::size_t used = static_cast<std::size_t>(columns) % kWordBits;
  const std::uint64_t pad = used == 0 ? 0 : ~std::uint64_t{0} << used;
  std::vector<std::uint64_t> bits(count_of(tensor));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    bits[i] = little_endian<std::uint64_t>(at(tensor, i));
    if (i % words == words - 1 && (bits[i] & pad) != 0) {
      fail(name, "pad bits set in row " + decimal(i / words), "zeros past K = " + std::to_string(columns));
    }
  }
  return bits;
}

std::vector<std::int16_t> Tensors::thresholds(const std::string& name, int rows, int inputs) {
  const Tensor& tensor = take(name, {Dtype::i16}, {size_of(rows)}, "");
  std::vector<std::int16_t> thresholds(count_of(tensor));
  for (std::size_t i = 0; i < thresholds.size(); ++i) {
    thresholds[i] = reinterpret<std::int16_t>(little_endian<std::uint16_t>(at(tensor, i)));
    if (thresholds[i] < 0 || thresholds[i] > inputs + 1) {
      fail(name, "threshold " + std::to_string(thresholds[i]) + " in row " + decimal(i), range(0, inputs + 1));
    }
  }
  return thresholds;
}

template <class Float>
std::vector<Float> Tensors::floats(const std::string& name, const std::vector<Dtype>& dtypes, const Shape& shape) {
  const Tensor& tensor = take(name, dtypes, shape, "");
  std::vector<Float> floats(count_of(tensor));
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const double value = float_at(at(tensor, i), tensor.dtype);
    if (!std::isfinite(value)) {
      fail(name, std::to_string(value) + " at index " + decimal(i), "finite numbers");
    }
    floats[i] = static_cast<Float>(value);
  }
  return floats;
}

template std::vector<float> Tensors::floats(const std::string&, const std::vector<Dtype>&, const Shape&);
template std::vector<double> Tensors::floats(const std::string&, const std::vector<Dtype>&, const Shape&);

}  // namespace bipointnet
