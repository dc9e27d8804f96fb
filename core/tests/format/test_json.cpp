// Any text gives JSON values or a FormatError with the position and what was found.
#include <cmath>
#include <limits>

#include "format/format_errors.h"

using namespace bipointnet;

namespace {

std::string decoded(const std::string& json) { return Json(json, "text").root().string(); }

void test_json_strings() {
  CHECK_EQUAL(decoded("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "\"\\/\b\f\n\r\t");
  CHECK_EQUAL(decoded("\"\\u0041\\u00e4\\u20AC\\uD83D\\ude00\""), "A\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
  CHECK_EQUAL(decoded("\"\\u0000\""), std::string(1, '\0'));
  CHECK_EQUAL(decoded("\"\xF4\x8F\xBF\xBF\xED\x9F\xBF\xEE\x80\x80\x7F\""),
              "\xF4\x8F\xBF\xBF\xED\x9F\xBF\xEE\x80\x80\x7F");
  for (const char* text :
       {"\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83d\\ud83d\"", "\"\\ud83dx\"", "\"\\ud83d\\n\"", "\"\\ud83d\\u0041\"",
        "\"\\u12G4\"", "\"\\u123", "\"\\x\"", "\"\\", "\"", "\"a", "\"\n\"", "\"\x1F\"", "'a'"}) {
    CHECK_ERROR(json_error_of(text), "text: byte ");
  }
  // stray continuation, overlong forms, a surrogate, above U+10FFFF, truncated, no lead byte
  for (const char* text : {"\"\x80\"", "\"\xC0\x80\"", "\"\xC1\xBF\"", "\"\xE0\x9F\xBF\"", "\"\xF0\x8F\xBF\xBF\"",
                           "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xF5\x80\x80\x80\"", "\"\xFF\"", "\"\xC3\"",
                           "\"\xE2\x82\"", "\"\xE2\x82", "\"\xF0\x9F\x98"}) {
    CHECK_ERROR(json_error_of(text), "expected UTF-8");
  }
}

void test_json_numbers() {
  const auto integer = [](const std::string& text) { return Json(text, "text").root().integer(); };
  const auto number = [](const std::string& text) { return Json(text, "text").root().number(); };
  CHECK(integer("0") == 0);
  CHECK(integer("-12") == -12);
  CHECK(integer("9007199254740992") == 9007199254740992);
  CHECK(!integer("9007199254740993"));
  CHECK(!integer("-9007199254740993"));
  CHECK(!integer("99999999999999999999999"));
  CHECK(!integer("1.0"));
  CHECK(!integer("1e2"));
  CHECK(!integer("\"1\""));
  CHECK(!integer("[1]"));
  CHECK(number("0.1") == 0.1);
  CHECK(number("-1.5E+2") == -150.0);
  CHECK(number("2.2250738585072014e-308") == 2.2250738585072014e-308);
  CHECK(number("12") == 12.0);
  CHECK(!number("1e400"));
  CHECK(!number("-1e99999999999999999999"));
  CHECK(!number("1" + std::string(400, '0')));
  CHECK(!number("0.000001e999"));
  CHECK(number("1" + std::string(400, '0') + "e-400") == 1.0);
  CHECK(number("0." + std::string(400, '0') + "1e401") == 1.0);
  CHECK(number("4.9e-324") == std::numeric_limits<double>::denorm_min());
  CHECK(number("0e999") == 0.0);
  // A number that is too small is 0, with its sign.
  for (const char* text : {"1e-400", "2e-324", "0.1e-99999999999999999999", "123456e-400"}) {
    CHECK(number(text) == 0.0 && !std::signbit(*number(text)));
    const std::string negative = std::string("-") + text;
    CHECK(number(negative) == 0.0 && std::signbit(*number(negative)));
  }
  CHECK(!number("true"));
  for (const char* text :
       {"01", "-", "-a", "+1", ".5", "1.", "1.e2", "1e", "1e+", "0x10", "1 2", "NaN", "Infinity", "--1", "1-1"}) {
    CHECK_ERROR(json_error_of(text), "text: byte ");
  }
}

void test_json_structure() {
  const std::string text = " {\"b\" : [1, [], {}, \"x\"] ,\t\"a\":{\"c\":null,\"d\":true,\"e\":false}}\r\n";
  const Json json(text, "text");
  const auto members = json.root().members();
  if (!CHECK_EQUAL(members.size(), 2u)) return;
  CHECK_EQUAL(members[0].first, "b");
  CHECK_EQUAL(members[1].first, "a");
  const auto items = members[0].second.items();
  if (!CHECK_EQUAL(items.size(), 4u)) return;
  CHECK(items[0].integer() == 1);
  CHECK(items[1].kind() == JsonValue::Kind::array && items[1].size() == 0);
  CHECK(items[2].kind() == JsonValue::Kind::object && items[2].size() == 0);
  CHECK_EQUAL(items[3].string(), "x");
  const auto inner = members[1].second.members();
  if (!CHECK_EQUAL(inner.size(), 3u)) return;
  CHECK(inner[0].second.kind() == JsonValue::Kind::null);
  CHECK(inner[1].second.kind() == JsonValue::Kind::boolean && inner[1].second.boolean());
  CHECK(inner[2].second.kind() == JsonValue::Kind::boolean && !inner[2].second.boolean());
  CHECK(members[1].second.items().empty() && items[0].members().empty() && items[0].string().empty());
  for (const char* broken : {"",           " ",     "{",     "[",        "]",
                             "[1,]",       "[,1]",  "[1 2]", "{\"a\"}",  "{\"a\":}",
                             "{\"a\":1,}", "{a:1}", "{1:1}", "{\"a\":1", "[1",
                             "tru",        "truex", "nul",   "[trux]",   "[falsy]",
                             "[nuLl]",     "[]]",   "{}{}",  "// c\n1",  "\xEF\xBB\xBF{}",
                             "\v1"}) {
    CHECK_ERROR(json_error_of(broken), "text: byte ");
  }
  CHECK_EQUAL(json_error_of("[trux]"), "text: byte 1: found 't', expected a value");
  CHECK_EQUAL(json_error_of("[\"ab"), "text: byte 4: found the end, expected the end of the string, '\"'");
  CHECK_EQUAL(json_error_of("[1,]"), "text: byte 3: found ']', expected a value");
  CHECK_EQUAL(json_error_of("{\"a\":1,\"\\u0061\":2}"),
              "text: byte 0: found key \"a\" twice, expected an object without duplicate keys");
}

void test_json_depth() {
  CHECK_EQUAL(json_error_of(std::string(64, '[') + std::string(64, ']')), "");
  CHECK_ERROR(json_error_of(std::string(65, '[') + std::string(65, ']')), "byte 64: found '[', expected at most 64");
  CHECK_ERROR(json_error_of(std::string(10000000, '[')), "byte 64");
  CHECK_ERROR(json_error_of(repeated("{\"a\":", 1000000)), "at most 64");
}

}  // namespace

int main() {
  test_json_strings();
  test_json_numbers();
  test_json_structure();
  test_json_depth();
  return check_report();
}
