#include "cloud_parts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "clouds.h"

namespace bipointnet {
namespace {

constexpr const char* kBlanks = " \t\v\f\r";
constexpr const char* kFinite = "a finite number within float32";
constexpr std::size_t kMaxPrinted = 40;

// [+-] digits [. digits] [e [+-] digits]: what strtod() accepts, except hexadecimals, infinities and NaNs.
bool is_number(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t first = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - first;
  };
  const auto one_of = [&](std::string_view marks) {
    const bool found = at < text.size() && marks.find(text[at]) != std::string_view::npos;
    if (found) ++at;
    return found;
  };
  one_of("+-");
  std::size_t count = digits();
  if (one_of(".")) count += digits();
  if (count == 0) return false;
  if (one_of("eE")) {
    one_of("+-");
    if (digits() == 0) return false;
  }
  return at == text.size();
}

}  // namespace

void refuse(const std::string& what, const std::string& found, const std::string& expected) {
  throw CloudError((what.empty() ? "" : what + ": ") + found + ", expected " + expected);
}

std::string text_of(std::size_t number) { return std::to_string(number); }

std::string excerpt(std::string_view text) {
  std::string shown = "'";
  for (const char c : text.substr(0, kMaxPrinted)) shown += c >= 0x20 && c < 0x7F ? c : '?';
  return shown + (text.size() > kMaxPrinted ? "...'" : "'");
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string lowered(std::string_view text) {
  std::string low(text);
  for (char& c : low) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return low;
}

bool Lines::next(std::string_view& line) {
  if (rest_.empty()) return false;
  const std::size_t end = rest_.find_first_of("\r\n");
  line = rest_.substr(0, end);
  std::size_t used = end == std::string_view::npos ? rest_.size() : end + 1;
  if (!lone_returns_ && rest_[used - 1] == '\r' && used < rest_.size() && rest_[used] == '\n') ++used;
  rest_.remove_prefix(used);
  ++number_;
  return true;
}

void split_blanks(std::string_view line, std::size_t most, Words& words) {
  words.clear();
  while (words.size() < most) {
    const std::size_t first = line.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) return;
    line.remove_prefix(first);
    words.push_back(line.substr(0, line.find_first_of(kBlanks)));
    line.remove_prefix(words.back().size());
  }
}

std::optional<std::size_t> whole_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool fits(double number) { return std::abs(number) <= double{std::numeric_limits<float>::max()}; }  // false for NaN

double number_of(std::string_view text, const Lines& lines, std::size_t column) {
  const double number = is_number(text) ? std::strtod(std::string(text).c_str(), nullptr) : std::nan("");
  if (!fits(number)) refuse(lines.where(column), excerpt(text), kFinite);
  return number;
}

void refuse_number(double number, std::size_t point, std::string_view name) {
  char shown[32];
  std::snprintf(shown, sizeof shown, "%g", number);
  refuse("point " + text_of(point) + " (counted from 0)", excerpt(name) + " is " + shown, kFinite);
}

std::vector<double> required_points(std::vector<double> numbers) {
  if (numbers.empty()) refuse("", "0 points", "at least 1");
  return numbers;
}

std::optional<std::vector<std::size_t>> columns_of(const Words& names, std::size_t channels) {
  std::vector<std::size_t> columns(3, names.size()), others;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t axis = names[i].size() == 1 ? std::string_view("xyz").find(lowered(names[i])) : std::string::npos;
    if (axis == std::string::npos) {
      others.push_back(i);
    } else if (columns[axis] == names.size()) {
      columns[axis] = i;
    } else {
      refuse("", "two columns with the name " + excerpt(names[i]), "one");
    }
  }
  if (*std::max_element(columns.begin(), columns.end()) == names.size()) return std::nullopt;
  columns.insert(columns.end(), others.begin(), others.begin() + static_cast<std::ptrdiff_t>(channels - 3));
  return columns;
}

double value_of(std::string_view bytes, const Scalar& type, bool big_endian) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < type.size; ++i) {
    const std::size_t place = big_endian ? type.size - 1 - i : i;
    word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * place;
  }
  if (type.kind != ScalarKind::real) {  // at most 32 bits
    const auto number = static_cast<std::int64_t>(word);
    const std::int64_t modulus = std::int64_t{1} << 8 * type.size;
    return static_cast<double>(type.kind == ScalarKind::natural || number < modulus / 2 ? number : number - modulus);
  }
  if (type.size == 4) {
    const auto low = static_cast<std::uint32_t>(word);
    float number = 0;
    std::memcpy(&number, &low, sizeof number);
    return double{number};
  }
  double number = 0;
  std::memcpy(&number, &word, sizeof number);
  return number;
}

}  // namespace bipointnet
