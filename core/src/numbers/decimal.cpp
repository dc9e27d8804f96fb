#include "numbers/decimal.h"

#include <clocale>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace bipointnet {
namespace {

// Powers of ten that a double holds exactly.
constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr int kMaxPower = 22;
constexpr std::uint64_t kMaxExact = std::uint64_t{1} << 53;
constexpr std::size_t kMaxDigits = 19;  // fit 64 bits

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// strtod() reads the decimal mark of the locale, which a program around this library may have set to a comma.
// std::from_chars() does not, but some standard libraries have none for doubles.
double locale_free_strtod(std::string_view text) {
  std::string copy(text);
  const std::size_t point = copy.find('.');
  if (point != std::string::npos) copy.replace(point, 1, std::localeconv()->decimal_point);
  return std::strtod(copy.c_str(), nullptr);
}

}  // namespace

// The digits give a whole number m and a power of ten p. If m is at most 2^53 and p within 22, both are exact doubles, so
// m * 10^p or m / 10^-p is rounded once, correctly (Clinger, "How to read floating point numbers accurately", 1990).
// Other numbers are left to strtod().
std::optional<double> decimal_number(std::string_view text) {
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
  if (count == 0) return std::nullopt;
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

}  // namespace bipointnet
