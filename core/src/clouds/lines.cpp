#include "clouds/lines.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace bipointnet::clouds {
namespace {

constexpr const char* kBlanks = " \t\v\f\r";
constexpr std::size_t kMaxPrinted = 40;

// Powers of ten that a double holds exactly.
constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr int kMaxPower = 22;
constexpr std::uint64_t kMaxExact = std::uint64_t{1} << 53;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void refuse(const std::string& what, const std::string& found, const std::string& expected) {
  throw CloudError((what.empty() ? "" : what + ": ") + found + ", expected " + expected);
}

void refuse_cut(std::uint64_t found, const std::string& items, std::uint64_t expected) {
  refuse("", "the file is cut short after " + text_of(found) + " " + items,
         text_of(expected) + "; copy it again from its source");
}

void note_rest(std::string_view rest, std::vector<std::string>& notes) {
  for (const char c : rest) {
    if (is_blank(c) || c == 0) continue;
    notes.push_back("the file holds " + text_of(rest.size()) + " bytes more than it declares; they were left out");
    return;
  }
}

std::string text_of(std::uint64_t number) { return std::to_string(number); }

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
  std::size_t end = 0;
  while (end < rest_.size() && rest_[end] != '\n' && rest_[end] != '\r') ++end;
  line = rest_.substr(0, end);
  std::size_t used = end == rest_.size() ? end : end + 1;
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

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The digits give a whole number m and a power of ten p. If m is at most 2^53 and p within 22, both are exact doubles, so
// m * 10^p or m / 10^-p is rounded once, correctly (Clinger, "How to read floating point numbers accurately", 1990).
// Other numbers are left to strtod(), which reads a point as the decimal mark in the locale "C" and in Python's.
std::optional<double> number_in(std::string_view text) {
  std::size_t at = 0;
  const auto next = [&] { return at < text.size() ? text[at] : '\0'; };
  const bool negative = next() == '-';
  if (next() == '+' || next() == '-') ++at;
  std::uint64_t digits = 0;
  int power = 0;
  std::size_t count = 0;
  bool exact = true, fraction = false;
  for (;; ++at) {
    const char c = next();
    if (c == '.' && !fraction) {
      fraction = true;
    } else if (is_digit(c)) {
      ++count;
      exact = exact && digits <= (kMaxExact - 9) / 10;
      if (exact) digits = 10 * digits + static_cast<std::uint64_t>(c - '0');
      power -= fraction && power > -1000;
    } else {
      break;
    }
  }
  if (count == 0) {
    const std::string low = fraction ? "" : lowered(text.substr(at));
    if (low == "nan" || (low.substr(0, 4) == "nan(" && low.back() == ')')) return std::nan("");
    if (low == "inf" || low == "infinity") return std::numeric_limits<double>::infinity() * (negative ? -1 : 1);
    return std::nullopt;
  }
  if (fraction && next() == '#') {
    const std::string low = lowered(text.substr(at + 1, 3));
    if (low == "inf") return std::numeric_limits<double>::infinity() * (negative ? -1 : 1);
    return low == "qna" || low == "sna" || low == "ind" ? std::optional<double>(std::nan("")) : std::nullopt;
  }
  if (next() == 'e' || next() == 'E') {
    ++at;
    const bool below = next() == '-';
    if (next() == '+' || next() == '-') ++at;
    int exponent = 0;
    const std::size_t first = at;
    for (; is_digit(next()); ++at) exponent = exponent < 100000 ? 10 * exponent + (next() - '0') : exponent;
    if (at == first) return std::nullopt;
    power += below ? -exponent : exponent;
  }
  if (at != text.size()) return std::nullopt;
  if (!exact || power < -kMaxPower || power > kMaxPower) return std::strtod(std::string(text).c_str(), nullptr);
  const auto whole = static_cast<double>(digits);
  const double number = power < 0 ? whole / kPowers[-power] : whole * kPowers[power];
  return negative ? -number : number;
}

}  // namespace bipointnet::clouds
