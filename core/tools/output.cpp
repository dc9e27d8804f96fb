#include "output.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "format/text.h"
#include "options.h"

namespace bipointnet::tool {

std::string json_string(std::string_view text) {
  std::string json = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text, 0);
    const unsigned first = byte_at(text, 0);
    if (length == 0) {
      json += "\\ufffd";
    } else if (is_control(text, 0)) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte_at(text, length - 1));  // the last byte is the code point
      json += escape;
    } else {
      if (first == '"' || first == '\\') json += '\\';
      json += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return json + '"';
}

std::string json_strings(const std::vector<std::string>& texts) {
  std::vector<std::string> list;
  for (const std::string& text : texts) list.push_back(json_string(text));
  return "[" + joined(list, ", ") + "]";
}

std::string joined(const std::vector<std::string>& texts, const std::string& separator) {
  std::string all;
  for (std::size_t i = 0; i < texts.size(); ++i) all += (i == 0 ? "" : separator) + texts[i];
  return all;
}

std::string plain(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(utf8_length(text, 0), 1);
    line += is_control(text, 0) ? "?" : text.substr(0, length);
    text.remove_prefix(length);
  }
  return line;
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  throw Error(std::string("cannot write to standard output (") + std::strerror(errno) +
              "), expected an open terminal, file or pipe");
}

void complain(const char* kind, const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", kind, plain(text).c_str());
}

}  // namespace bipointnet::tool
