// The fields of a line of text: comments, separators, names of columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "clouds/lines.h"

namespace bipointnet::clouds {

// Whether a line that is not empty begins with #, % or //.
bool is_comment(std::string_view line);

// Without a comment at the end. A number like 1.#QNAN holds no comment, nor does a text in quotation marks.
std::string_view without_comment(std::string_view line);

// Splits off at most `most` fields, at blanks if the separator is ' '. A field in quotation marks may hold separators.
void split_fields(std::string_view line, char separator, std::size_t most, Words& fields);

// The separator of a line: a semicolon, a comma, or ' ' for blanks. The commas in "1,5 2,0 3,25" are decimal marks.
// `words` is overwritten.
char separator_of(std::string_view line, Words& words);

// Whether commas could separate both the columns and the decimals: "1,5, 2,0, 3,25".
bool has_two_kinds_of_commas(std::string_view line);

// The names in a line. A unit may be a word of its own: "X [m] Y [m] Z [m]".
std::vector<std::string> names_in(const Words& fields);

// "1 column" or "3 columns".
std::string counted_columns(std::size_t count);

}  // namespace bipointnet::clouds
