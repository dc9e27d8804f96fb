#include "clouds/lines.h"

#include <charconv>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <cstring>
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
constexpr std::size_t kMaxDigits = 19;  // fit 64 bits

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// strtod() reads the decimal mark of the locale, which a program around this library may have set to a comma.
double locale_free_strtod(std::string_view text) {
  std::string copy(text);
  const std::size_t point = copy.find('.');
  if (point != std::string::npos) copy.replace(point, 1, std::localeconv()->decimal_point);
  return std::strtod(copy.c_str(), nullptr);
}

// [+-] nan, inf, infinity, nan(ind), nan(snan), 1.#QNAN, 1.#SNAN, 1.#IND or 1.#INF; the last four may end with zeros.
std::optional<double> special_number(std::string_view text) {
  const bool negative = !text.empty() && text[0] == '-';
  if (negative || (!text.empty() && text[0] == '+')) text.remove_prefix(1);
  if (text.size() > 16) return std::nullopt;
  std::string name = lowered(text);
  if (name.compare(0, 3, "1.#") == 0) name = name.substr(3, name.find_last_not_of('0') - 2);
  if (name == "nan" || name == "nan(ind)" || name == "nan(snan)") return std::nan("");
  if (name == "qnan" || name == "snan" || name == "ind") return std::nan("");
  if (name != "inf" && name != "infinity") return std::nullopt;
  return std::numeric_limits<double>::infinity() * (negative ? -1 : 1);
}

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
    if (is_blank(c) || c == '\n' || c == 0) continue;
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
  const char* begin = rest_.data();
  const char* end = begin + rest_.size();
  const auto find = [begin](char c, const char* limit) {
    const void* found = std::memchr(begin, c, static_cast<std::size_t>(limit - begin));
    return found ? static_cast<const char*>(found) : limit;
  };
  if (!newline_ || newline_ < begin) newline_ = find('\n', end);
  const char* stop = find('\r', newline_);
  line = rest_.substr(0, static_cast<std::size_t>(stop - begin));
  const char* next = stop == end ? end : stop + 1;
  if (!lone_returns_ && stop != newline_ && next != end && *next == '\n') ++next;
  rest_.remove_prefix(static_cast<std::size_t>(next - begin));
  ++number_;
  return true;
}

void split_blanks(std::string_view line, std::size_t most, Words& words) {
  words.clear();
  std::size_t at = 0;
  while (words.size() < most) {
    while (at < line.size() && is_blank(line[at])) ++at;
    if (at == line.size()) return;
    const std::size_t first = at;
    while (at < line.size() && !is_blank(line[at])) ++at;
    words.push_back(line.substr(first, at - first));
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
// Other numbers are left to strtod().
std::optional<double> number_in(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  if (at != end && (*at == '+' || *at == '-')) ++at;
  std::uint64_t digits = 0;  // wraps around after 19 digits; these go to strtod()
  const auto take_digits = [&] {
    const char* first = at;
    for (; at != end && is_digit(*at); ++at) digits = 10 * digits + static_cast<std::uint64_t>(*at - '0');
    return static_cast<std::size_t>(at - first);
  };
  std::size_t count = take_digits(), decimals = 0;
  if (at != end && *at == '.') {
    ++at;
    decimals = take_digits();
    count += decimals;
  }
  if (count == 0 || (at != end && *at == '#')) return special_number(text);
  int power = 0;
  if (at != end && (*at == 'e' || *at == 'E')) {
    ++at;
    const bool below = at != end && *at == '-';
    if (at != end && (*at == '+' || *at == '-')) ++at;
    const char* first = at;
    for (; at != end && is_digit(*at); ++at) power = power < 100000 ? 10 * power + (*at - '0') : power;
    if (at == first) return std::nullopt;
    if (below) power = -power;
  }
  if (at != end) return std::nullopt;
  if (count > kMaxDigits || digits > kMaxExact) return locale_free_strtod(text);
  power -= static_cast<int>(decimals);
  if (power < -kMaxPower || power > kMaxPower) return locale_free_strtod(text);
  const auto whole = static_cast<double>(digits);
  const double number = power < 0 ? whole / kPowers[-power] : whole * kPowers[power];
  return negative ? -number : number;
}

}  // namespace bipointnet::clouds
