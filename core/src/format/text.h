// UTF-8, and text for messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace bipointnet {

inline unsigned byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

// The number of bytes of the UTF-8 character at `at`, or 0 if there is no valid one: overlong forms, surrogates and
// code points above U+10FFFF are invalid.
std::size_t utf8_length(std::string_view text, std::size_t at);

void append_utf8(std::string& text, unsigned code);

// Whether the character at `at` is a control character, which a terminal may obey: U+0000 to U+001F, or U+007F to U+009F.
bool is_control(std::string_view text, std::size_t at);

// `text` for a message: one short line of valid UTF-8.
std::string printable(std::string_view text);
std::string quoted(std::string_view text);

// A number for a message, with the nine digits that tell float32 numbers apart.
std::string printed(double number);

}  // namespace bipointnet
