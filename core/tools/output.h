// Text for terminals and JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bipointnet::tool {

// A file name may contain any bytes; those that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

std::string json_strings(const std::vector<std::string>& texts);

std::string joined(const std::vector<std::string>& texts, const std::string& separator);

// One line for a terminal, without control characters.
std::string plain(std::string_view text);

// Writes to standard output; throws Error.
void print(const std::string& text);

// Writes one line to standard error: "error: ..." or "warning: ...".
void complain(const char* kind, const std::string& text);

}  // namespace bipointnet::tool
