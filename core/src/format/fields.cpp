#include "format/fields.h"

#include <algorithm>

#include "format/network.h"
#include "format/text.h"

namespace bipointnet {

void fail(const std::string& what, const std::string& found, const std::string& expected) {
  throw FormatError(what + ": " + found + ", expected " + expected);
}

std::string decimal(std::uint64_t value) { return std::to_string(value); }

std::string range(std::int64_t low, std::int64_t high) { return std::to_string(low) + " to " + std::to_string(high); }

std::string alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

Fields::Fields(const JsonValue& object, std::string what_it_is) : what(std::move(what_it_is)) {
  if (object.kind() != JsonValue::Kind::object) fail(what, object.describe(), "an object");
  members_ = object.members();
}

bool Fields::has(const std::string& key) const {
  return std::any_of(members_.begin(), members_.end(), [&](const auto& member) { return member.first == key; });
}

void Fields::expect_keys(const std::vector<std::string>& keys) const {
  for (const auto& member : members_) {
    if (std::find(keys.begin(), keys.end(), member.first) == keys.end()) {
      fail(what, "key " + quoted(member.first), "only the keys " + alternatives(keys));
    }
  }
  for (const std::string& key : keys) at(key);
}

const JsonValue& Fields::at(const std::string& key) const {
  for (const auto& member : members_) {
    if (member.first == key) return member.second;
  }
  fail(what, "no key " + key, "this key");
}

std::string Fields::string(const std::string& key) const {
  const JsonValue& value = at(key);
  if (value.kind() != JsonValue::Kind::string) fail_at(key, "a string");
  return value.string();
}

std::vector<JsonValue> Fields::list(const std::string& key, std::int64_t low, std::int64_t high) const {
  const JsonValue& value = at(key);
  if (value.kind() != JsonValue::Kind::array) fail_at(key, "a list");
  const auto length = static_cast<std::int64_t>(value.size());
  if (length < low || length > high) {
    fail(what, key + " with " + std::to_string(length) + " items",
         low == high ? std::to_string(low) : range(low, high));
  }
  return value.items();
}

std::int64_t Fields::integer(const std::string& key, std::int64_t low, std::int64_t high) const {
  const auto value = at(key).integer();
  if (!value || *value < low || *value > high) {
    fail_at(key, low == high ? std::to_string(low) : "an integer from " + range(low, high));
  }
  return *value;
}

double Fields::number(const std::string& key) const {
  const auto value = at(key).number();
  if (!value) fail_at(key, "a number that fits a float64");
  return *value;
}

void Fields::fail_at(const std::string& key, const std::string& expected) const {
  fail(what, key + " " + at(key).describe(), expected);
}

}  // namespace bipointnet
