#include "format/text.h"

#include <algorithm>
#include <cstdio>

namespace bipointnet {
namespace {

constexpr std::size_t kMaxPrinted = 60;

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const unsigned first = byte_at(text, at);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() - at < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, at + i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte_at(text, at + 1);
  if (first == 0xE0 && second < 0xA0) return 0;
  if (first == 0xED && second > 0x9F) return 0;
  if (first == 0xF0 && second < 0x90) return 0;
  if (first == 0xF4 && second > 0x8F) return 0;
  return length;
}

void append_utf8(std::string& text, unsigned code) {
  const auto append = [&text](unsigned byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) {
    append(code);
  } else if (code < 0x800) {
    append(0xC0 | code >> 6);
    append(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    append(0xE0 | code >> 12);
    append(0x80 | (code >> 6 & 0x3F));
    append(0x80 | (code & 0x3F));
  } else {
    append(0xF0 | code >> 18);
    append(0x80 | (code >> 12 & 0x3F));
    append(0x80 | (code >> 6 & 0x3F));
    append(0x80 | (code & 0x3F));
  }
}

bool is_control(std::string_view text, std::size_t at) {
  const unsigned first = byte_at(text, at);
  return first < 0x20 || first == 0x7F || (first == 0xC2 && utf8_length(text, at) == 2 && byte_at(text, at + 1) < 0xA0);
}

std::string printable(std::string_view text) {
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    if (at >= kMaxPrinted) return line + "...";
    const std::size_t length = utf8_length(text, at);
    if (length == 0 || is_control(text, at)) {
      line += '?';
    } else {
      line.append(text, at, length);
    }
    at += std::max<std::size_t>(length, 1);
  }
  return line;
}

std::string quoted(std::string_view text) { return '"' + printable(text) + '"'; }

std::string printed(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", number);
  return text;
}

}  // namespace bipointnet
