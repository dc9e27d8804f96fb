#include "clouds/lines.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "numbers/decimal.h"

namespace bipointnet::clouds {
namespace {

constexpr const char* kBlanks = " \t\v\f\r";
constexpr std::size_t kMaxPrinted = 40;

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

std::optional<double> number_in(std::string_view text) {
  const std::optional<double> number = decimal_number(text);
  return number ? number : special_number(text);
}

}  // namespace bipointnet::clouds
