// Reads the members of a JSON object of a packed model by name. A violated rule is a FormatError whose message names
// the place, what was found and what was expected.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "format/json.h"

namespace bipointnet {

[[noreturn]] void fail(const std::string& what, const std::string& found, const std::string& expected);

// Parts of the messages of fail().
std::string decimal(std::uint64_t value);
std::string range(std::int64_t low, std::int64_t high);
std::string alternatives(const std::vector<std::string>& names);  // "a", "a or b", "a, b or c"

class Fields {
 public:
  std::string what;

  Fields(const JsonValue& object, std::string what_it_is);

  bool has(const std::string& key) const;
  void expect_keys(const std::vector<std::string>& keys) const;
  const JsonValue& at(const std::string& key) const;
  std::string string(const std::string& key) const;
  std::vector<JsonValue> list(const std::string& key, std::int64_t low, std::int64_t high) const;
  std::int64_t integer(const std::string& key, std::int64_t low, std::int64_t high) const;
  double number(const std::string& key) const;

  template <class T>
  T choice(const std::string& key, std::initializer_list<std::pair<const char*, T>> choices) const {
    std::vector<std::string> names;
    const std::string name = string(key);
    for (const auto& [known, value] : choices) {
      if (name == known) return value;
      names.push_back(known);
    }
    fail_at(key, alternatives(names));
  }

  [[noreturn]] void fail_at(const std::string& key, const std::string& expected) const;

 private:
  std::vector<JsonValue::Member> members_;
};

}  // namespace bipointnet
