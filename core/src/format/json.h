// A strict JSON reader: one pass checks a whole text, then values decode themselves when asked.
//
// A value costs 8 bytes however small it is in the text, so a hostile text cannot ask for much more memory than it has
// bytes. Refused, besides what the grammar refuses: duplicate keys, text that is not UTF-8, halves of surrogate pairs,
// and more than 64 lists and objects inside each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bipointnet {

// A value of a Json, which must outlive it. What a function is not for (items() of a string) gives nothing: no items,
// no number, an empty string.
class JsonValue {
 public:
  enum class Kind { object, array, string, number, boolean, null };
  using Member = std::pair<std::string, JsonValue>;

  Kind kind() const;
  std::string string() const;
  bool boolean() const;
  std::optional<double> number() const;         // none where a double does not reach
  std::optional<std::int64_t> integer() const;  // none with a fraction, an exponent, or beyond +-2^53
  std::size_t size() const;                     // items of a list or members of an object
  std::vector<JsonValue> items() const;
  std::vector<Member> members() const;          // in the order of the text
  std::string describe() const;                 // for messages: "text", 12, a list, an object, true, null

 private:
  friend class Json;
  JsonValue(const class Json& json, std::uint32_t node) : json_(&json), node_(node) {}
  std::string_view number_text() const;

  const Json* json_;
  std::uint32_t node_;
};

// Where a value's text begins, and the number of the node after it and all that is inside it. An object's nodes are
// key, value, key, value.
struct JsonNode {
  std::uint32_t begin;
  std::uint32_t next;
};

class Json {
 public:
  // `text` must outlive it. Throws FormatError: `what: byte 12: found '}', expected a value`.
  Json(std::string_view text, const std::string& what);
  JsonValue root() const { return JsonValue(*this, 0); }

 private:
  friend class JsonValue;
  JsonValue value(std::uint32_t node) const { return JsonValue(*this, node); }

  std::string_view text_;
  std::vector<JsonNode> nodes_;
};

// `text` for a message: one line, in UTF-8, not long.
std::string printable(std::string_view text);
std::string quoted(std::string_view text);

}  // namespace bipointnet
