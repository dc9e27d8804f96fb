// Lines, words and numbers of text files, and the errors of all readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clouds/cloud.h"

namespace bipointnet::clouds {

using Words = std::vector<std::string_view>;

// Throws a CloudError: "WHAT: FOUND, expected EXPECTED"; `what` may be empty.
[[noreturn]] void refuse(const std::string& what, const std::string& found, const std::string& expected);

std::string text_of(std::uint64_t number);

// A part of a file for an error message.
std::string excerpt(std::string_view text);

std::string_view trimmed(std::string_view text);

std::string lowered(std::string_view text);

// The lines of a text, terminated by \n, \r\n or \r.
class Lines {
 public:
  // lone_returns: every \r ends a line, and a \n after it belongs to the next line.
  explicit Lines(std::string_view text, bool lone_returns = false) : rest_(text), lone_returns_(lone_returns) {}

  bool next(std::string_view& line);

  std::string_view rest() const { return rest_; }
  std::string where() const { return "line " + text_of(number_); }
  std::string where(std::size_t column) const { return where() + ", column " + text_of(column + 1); }

 private:
  std::string_view rest_;
  bool lone_returns_;
  std::size_t number_ = 0;
  const char* newline_ = nullptr;  // the next \n or the end of the text, so that no byte is searched for it twice
};

// Splits off at most `most` words at blanks.
void split_blanks(std::string_view line, std::size_t most, Words& words);

// Of 64 bits on every machine, so that a count too large for memory is reported as what it is.
std::optional<std::uint64_t> whole_number(std::string_view text);

// Blanks inside a line.
inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r'; }

// The number in a word: [+-] digits [. digits] [e [+-] digits], or nan, inf or infinity in any case with a sign, also as
// Windows programs write them ("1.#QNAN", "-nan(ind)"); none if it is something else. Correctly rounded and independent
// of the locale.
std::optional<double> number_in(std::string_view text);

}  // namespace bipointnet::clouds
