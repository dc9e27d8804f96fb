#include "format/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "format/network.h"
#include "format/text.h"
#include "numbers/decimal.h"

namespace bipointnet {
namespace {

constexpr int kMaxDepth = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Reads tokens and throws at the first wrong character. The same code reads strings when the text is checked (then
// `decoded` is null) and when a value is asked for its string.
class Scanner {
 public:
  Scanner(std::string_view text, std::size_t at, const std::string& what) : text_(text), at_(at), what_(what) {}

  std::size_t at() const { return at_; }
  bool ended() const { return at_ == text_.size(); }
  bool sees(char c) const { return !ended() && text_[at_] == c; }

  bool take(char c) {
    if (!sees(c)) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!take(c)) fail(std::string("'") + c + "'");
  }

  void skip_space() {
    while (!ended() && is_space(text_[at_])) ++at_;
  }

  void word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) fail("a value");
    at_ += word.size();
  }

  void number() {
    take('-');
    if (!take('0')) digits();
    if (take('.')) digits();
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      digits();
    }
  }

  void string(std::string* decoded) {
    if (!take('"')) fail("a string");
    while (!take('"')) {
      if (ended()) fail("the end of the string, '\"'");
      if (take('\\')) {
        const unsigned code = escape();
        if (decoded) append_utf8(*decoded, code);
        continue;
      }
      if (byte_at(text_, at_) < 0x20) fail("an escape instead of a control character");
      const std::size_t length = utf8_length(text_, at_);
      if (length == 0) fail("UTF-8");
      if (decoded) decoded->append(text_, at_, length);
      at_ += length;
    }
  }

  [[noreturn]] void fail(const std::string& expected) const {
    throw FormatError(what_ + ": byte " + std::to_string(at_) + ": found " + found() + ", expected " + expected);
  }

 private:
  std::string found() const {
    if (ended()) return "the end";
    const unsigned byte = byte_at(text_, at_);
    if (byte > 0x20 && byte < 0x7F) return std::string("'") + text_[at_] + "'";
    constexpr const char* hex = "0123456789abcdef";
    return std::string("byte 0x") + hex[byte >> 4] + hex[byte & 15];
  }

  void digits() {
    if (ended() || !is_digit(text_[at_])) fail("a digit");
    while (!ended() && is_digit(text_[at_])) ++at_;
  }

  unsigned escape() {
    constexpr std::string_view names = "\"\\/bfnrt";
    constexpr std::string_view codes = "\"\\/\b\f\n\r\t";
    if (take('u')) return unicode_escape();
    const std::size_t i = ended() ? names.npos : names.find(text_[at_]);
    if (i == names.npos) fail("one of \" \\ / b f n r t u after a backslash");
    ++at_;
    return byte_at(codes, i);
  }

  unsigned unicode_escape() {
    const unsigned high = four_hex_digits();
    if (high < 0xD800 || high > 0xDFFF) return high;
    const bool paired = high < 0xDC00 && take('\\') && take('u');
    const unsigned low = paired ? four_hex_digits() : 0;
    if (low < 0xDC00 || low > 0xDFFF) fail("a complete surrogate pair before it");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  unsigned four_hex_digits() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = ended() ? ' ' : text_[at_];
      if (is_digit(c)) {
        code = code * 16 + static_cast<unsigned>(c - '0');
      } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
        code = code * 16 + static_cast<unsigned>((c | 0x20) - 'a') + 10;
      } else {
        fail("four hexadecimal digits after \\u");
      }
    }
    return code;
  }

  std::string_view text_;
  std::size_t at_;
  const std::string& what_;
};

std::string string_at(std::string_view text, std::size_t begin) {
  static const std::string what = "JSON";
  std::string decoded;
  Scanner(text, begin, what).string(&decoded);
  return decoded;
}

// Checks a text and appends its nodes.
class Builder {
 public:
  Builder(std::string_view text, const std::string& what, std::vector<JsonNode>& nodes)
      : text_(text), what_(what), scan_(text, 0, what), nodes_(nodes) {}

  void document() {
    scan_.skip_space();
    value(0);
    scan_.skip_space();
    if (!scan_.ended()) scan_.fail("the end");
  }

 private:
  void value(int depth) {
    const std::size_t node = open();
    if (scan_.sees('{')) {
      object(inside(depth), node);
    } else if (scan_.sees('[')) {
      array(inside(depth));
    } else if (scan_.sees('"')) {
      scan_.string(nullptr);
    } else if (scan_.sees('t')) {
      scan_.word("true");
    } else if (scan_.sees('f')) {
      scan_.word("false");
    } else if (scan_.sees('n')) {
      scan_.word("null");
    } else {
      if (scan_.ended() || !(scan_.sees('-') || is_digit(text_[scan_.at()]))) scan_.fail("a value");
      scan_.number();
    }
    close(node);
  }

  void object(int depth, std::size_t node) {
    scan_.expect('{');
    scan_.skip_space();
    if (scan_.take('}')) return;
    do {
      scan_.skip_space();
      key();
      scan_.skip_space();
      scan_.expect(':');
      scan_.skip_space();
      value(depth);
      scan_.skip_space();
    } while (scan_.take(','));
    if (!scan_.take('}')) scan_.fail("',' or '}'");
    refuse_duplicates(node);
  }

  void array(int depth) {
    scan_.expect('[');
    scan_.skip_space();
    if (scan_.take(']')) return;
    do {
      scan_.skip_space();
      value(depth);
      scan_.skip_space();
    } while (scan_.take(','));
    if (!scan_.take(']')) scan_.fail("',' or ']'");
  }

  void key() {
    const std::size_t node = open();
    scan_.string(nullptr);
    close(node);
  }

  int inside(int depth) const {
    if (depth == kMaxDepth) scan_.fail("at most " + std::to_string(kMaxDepth) + " levels of nested lists and objects");
    return depth + 1;
  }

  // Sorted, not hashed: a hostile text could contain many keys with the same hash.
  void refuse_duplicates(std::size_t object) const {
    std::vector<std::string> keys;
    for (std::size_t key = object + 1; key < nodes_.size(); key = nodes_[key + 1].next) {
      keys.push_back(string_at(text_, nodes_[key].begin));
    }
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice == keys.end()) return;
    throw FormatError(what_ + ": byte " + std::to_string(nodes_[object].begin) + ": found key " + quoted(*twice) +
                      " twice, expected an object without duplicate keys");
  }

  std::size_t open() {
    nodes_.push_back({static_cast<std::uint32_t>(scan_.at()), 0});
    return nodes_.size() - 1;
  }

  void close(std::size_t node) { nodes_[node].next = static_cast<std::uint32_t>(nodes_.size()); }

  std::string_view text_;
  const std::string& what_;
  Scanner scan_;
  std::vector<JsonNode>& nodes_;
};

}  // namespace

Json::Json(std::string_view text, const std::string& what) : text_(text) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max() - 1) {
    throw FormatError(what + ": found " + std::to_string(text.size()) + " bytes, expected fewer than 4 GiB");
  }
  Builder(text, what, nodes_).document();
}

JsonValue::Kind JsonValue::kind() const {
  switch (json_->text_[json_->nodes_[node_].begin]) {
    case '{': return Kind::object;
    case '[': return Kind::array;
    case '"': return Kind::string;
    case 't':
    case 'f': return Kind::boolean;
    case 'n': return Kind::null;
    default: return Kind::number;
  }
}

std::string JsonValue::string() const {
  return kind() == Kind::string ? string_at(json_->text_, json_->nodes_[node_].begin) : std::string();
}

bool JsonValue::boolean() const { return json_->text_[json_->nodes_[node_].begin] == 't'; }

std::string_view JsonValue::number_text() const {
  if (kind() != Kind::number) return {};
  const std::string_view rest = json_->text_.substr(json_->nodes_[node_].begin);
  return rest.substr(0, rest.find_first_not_of("+-.0123456789eE"));
}

std::optional<double> JsonValue::number() const {
  const std::optional<double> number = decimal_number(number_text());
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::optional<std::int64_t> JsonValue::integer() const {
  const std::string_view text = number_text();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value > kMaxInteger || value < -kMaxInteger) return std::nullopt;
  return value;
}

std::size_t JsonValue::size() const {
  const bool pairs = kind() == Kind::object;
  const std::uint32_t end = json_->nodes_[node_].next;
  std::size_t count = 0;
  for (std::uint32_t node = node_ + 1; node < end; ++count) node = json_->nodes_[pairs ? node + 1 : node].next;
  return count;
}

std::vector<JsonValue> JsonValue::items() const {
  std::vector<JsonValue> items;
  if (kind() != Kind::array) return items;
  items.reserve(size());
  const std::uint32_t end = json_->nodes_[node_].next;
  for (std::uint32_t node = node_ + 1; node < end; node = json_->nodes_[node].next) {
    items.push_back(json_->value(node));
  }
  return items;
}

std::vector<JsonValue::Member> JsonValue::members() const {
  std::vector<Member> members;
  if (kind() != Kind::object) return members;
  members.reserve(size());
  const std::uint32_t end = json_->nodes_[node_].next;
  for (std::uint32_t key = node_ + 1; key < end; key = json_->nodes_[key + 1].next) {
    members.emplace_back(json_->value(key).string(), json_->value(key + 1));
  }
  return members;
}

std::string JsonValue::describe() const {
  switch (kind()) {
    case Kind::object: return "an object";
    case Kind::array: return "a list";
    case Kind::string: return quoted(string());
    case Kind::number: return printable(number_text());
    case Kind::boolean: return boolean() ? "true" : "false";
    default: return "null";
  }
}

}  // namespace bipointnet
