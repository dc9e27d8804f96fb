#include "clouds/fields.h"

#include <algorithm>

#include "clouds/formats.h"

namespace bipointnet::clouds {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether blanks separate the words and every comma is a decimal mark, as in "1,5 2,0 3,25".
bool has_decimal_commas(std::string_view line, Words& words) {
  split_blanks(line, kMaxColumns, words);
  if (words.size() < 3) return false;
  return std::all_of(words.begin(), words.end(), [](std::string_view word) {
    const std::size_t comma = word.find(',');
    if (comma == std::string_view::npos) return true;
    return comma > 0 && is_digit(word[comma - 1]) && comma + 1 < word.size() && is_digit(word[comma + 1]) &&
           word.find(',', comma + 1) == std::string_view::npos;
  });
}

}  // namespace

bool is_comment(std::string_view line) {
  return line[0] == '#' || line[0] == '%' || (line[0] == '/' && line.size() > 1 && line[1] == '/');
}

std::string_view without_comment(std::string_view line) {
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (quoted) continue;
    const bool hash = line[i] == '#' && (i == 0 || line[i - 1] != '.');
    if (hash || line.substr(i, 2) == "//") return trimmed(line.substr(0, i));
  }
  return trimmed(line);
}

void split_fields(std::string_view line, char separator, std::size_t most, Words& fields) {
  fields.clear();
  if (separator == ' ' && line.find('"') == std::string_view::npos) return split_blanks(line, most, fields);
  const auto ends = [separator](char c) { return separator == ' ' ? is_blank(c) : c == separator; };
  std::size_t at = 0;
  while (fields.size() < most) {
    while (at < line.size() && is_blank(line[at])) ++at;
    if (separator == ' ' && at == line.size()) return;
    std::string_view field;
    if (at < line.size() && line[at] == '"') {
      const std::size_t close = std::min(line.find('"', at + 1), line.size());
      field = line.substr(at + 1, close - at - 1);
      at = close;
      while (at < line.size() && !ends(line[at])) ++at;
    } else {
      const std::size_t first = at;
      while (at < line.size() && !ends(line[at])) ++at;
      field = trimmed(line.substr(first, at - first));
    }
    fields.push_back(field);
    if (separator == ' ') continue;
    if (at == line.size()) return;
    ++at;
  }
}

char separator_of(std::string_view line, Words& words) {
  bool quoted = false, comma = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (!quoted && c == ';') return ';';
    comma = comma || (!quoted && c == ',');
  }
  return comma && !has_decimal_commas(line, words) ? ',' : ' ';
}

bool has_two_kinds_of_commas(std::string_view line) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != ',') continue;
    const bool blank = i + 1 < line.size() && is_blank(line[i + 1]);
    if (blank != (count % 2 == 1)) return false;
    ++count;
  }
  return count >= 5 && count % 2 == 1;
}

std::string counted_columns(std::size_t count) { return text_of(count) + (count == 1 ? " column" : " columns"); }

std::vector<std::string> names_in(const Words& fields) {
  std::vector<std::string> names;
  char closing = '\0';
  for (const std::string_view field : fields) {
    const bool unit = !names.empty() && !field.empty() && (field[0] == '[' || field[0] == '(');
    if (unit) closing = field[0] == '[' ? ']' : ')';
    if (unit || closing) {
      names.back() += " " + std::string(field);
      if (field.find(closing) != std::string_view::npos) closing = '\0';
    } else {
      names.emplace_back(field);
    }
  }
  return names;
}

}  // namespace bipointnet::clouds
