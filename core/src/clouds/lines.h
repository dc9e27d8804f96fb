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

// Throws a CloudError: "the file is cut short after FOUND ITEMS, expected EXPECTED; ...".
[[noreturn]] void refuse_cut(std::uint64_t found, const std::string& items, std::uint64_t expected);

// A note about bytes after the last point or face, or none if they are blanks or zeros.
void note_rest(std::string_view rest, std::vector<std::string>& notes);

// A part of a file for an error message.
std::string excerpt(std::string_view text);

std::string_view trimmed(std::string_view text);

std::string lowered(std::string_view text);

// Without the byte order mark of UTF-8, which some programs of Windows write first.
inline std::string_view without_mark(std::string_view text) {
  return text.substr(text.substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0);
}

// The lines of a text, terminated by \n, \r\n or \r.
class Lines {
 public:
  // lone_returns: every \r ends a line, and a \n after it belongs to the next line.
  explicit Lines(std::string_view text, bool lone_returns = false)
      : rest_(without_mark(text)), lone_returns_(lone_returns) {}

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

// Blanks inside a line.
inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r'; }

// Splits the first word off `line`; false if only blanks are left.
inline bool next_word(std::string_view& line, std::string_view& word) {
  std::size_t first = 0;
  while (first < line.size() && is_blank(line[first])) ++first;
  std::size_t end = first;
  while (end < line.size() && !is_blank(line[end])) ++end;
  word = line.substr(first, end - first);
  line.remove_prefix(end);
  return !word.empty();
}

// Splits off at most `most` words at blanks.
void split_blanks(std::string_view line, std::size_t most, Words& words);

// Of 64 bits on every machine, so that a count too large for memory is reported as what it is.
std::optional<std::uint64_t> whole_number(std::string_view text);

// The number in a word: [+-] digits [. digits] [e [+-] digits], or nan, inf or infinity in any case with a sign, also as
// Windows programs write them ("1.#QNAN", "-nan(ind)"); none if it is something else. Correctly rounded and independent
// of the locale.
std::optional<double> number_in(std::string_view text);

}  // namespace bipointnet::clouds
