// A strict JSON reader: one pass checks the whole text; values are decoded on demand.
//
// A value takes 8 bytes of memory, so a hostile text cannot demand much more memory than its own size. Besides invalid
// JSON, these are rejected: duplicate keys, invalid UTF-8, incomplete surrogate pairs, and more than 64 levels of
// nested lists and objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bipointnet {

constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;  // the largest integer in JSON that a double holds

// A value of a Json, which must outlive it. A function that does not fit the kind of the value (items() of a string)
// returns an empty result: no items, no number, an empty string.
class JsonValue {
 public:
  enum class Kind { object, array, string, number, boolean, null };
  using Member = std::pair<std::string, JsonValue>;

  Kind kind() const;
  std::string string() const;
  bool boolean() const;
  std::optional<double> number() const;         // none if it overflows a double
  std::optional<std::int64_t> integer() const;  // none with a fraction or an exponent, or beyond +-2^53
  std::size_t size() const;                     // number of items of a list or members of an object
  std::vector<JsonValue> items() const;
  std::vector<Member> members() const;  // in the order of the text
  std::string describe() const;         // for messages: "text", 12, a list, an object, true, null

 private:
  friend class Json;
  JsonValue(const class Json& json, std::uint32_t node) : json_(&json), node_(node) {}
  std::string_view number_text() const;

  const Json* json_;
  std::uint32_t node_;
};

// A value: where its text begins, and the index of the first node after it and its descendants. The children of an
// object are key, value, key, value, ...
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

}  // namespace bipointnet
