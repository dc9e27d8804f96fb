// Lines, words and numbers of text.
#include <chrono>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cloud_checks.h"
#include "clouds/lines.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

using Words = std::vector<std::string_view>;

std::uint64_t bits_of(double number) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

void check_as_strtod(const std::string& text) {
  const std::optional<double> number = number_in(text);
  if (check(number && bits_of(*number) == bits_of(std::strtod(text.c_str(), nullptr)), __FILE__, __LINE__,
            "number_in")) {
    return;
  }
  std::cerr << "  for " << text << ": found " << number.value_or(-1) << "\n";
}

std::string digits(std::mt19937_64& random, std::uint64_t count) {
  std::string text;
  for (std::uint64_t i = 0; i < count; ++i) text += static_cast<char>('0' + random() % 10);
  return text;
}

// Numbers of every form that programs write, for one seed.
std::string random_number(std::mt19937_64& random) {
  char text[400];
  double number = 0;
  std::uint64_t bits = random();
  std::memcpy(&number, &bits, sizeof number);  // all exponents, also subnormal
  if (!std::isfinite(number)) number = 0.5;
  const double common = static_cast<double>(static_cast<std::int64_t>(random() % 2000000) - 1000000) / 1000;
  switch (random() % 8) {
    case 0: std::snprintf(text, sizeof text, "%.17g", number); break;
    case 1: std::snprintf(text, sizeof text, "%.18e", number); break;
    case 2: std::snprintf(text, sizeof text, "%.6f", common); break;
    case 3: std::snprintf(text, sizeof text, "%g", common); break;
    case 4: std::snprintf(text, sizeof text, "%.*e", static_cast<int>(random() % 40), number); break;
    case 5: std::snprintf(text, sizeof text, "%.15g", common * 1.1); break;
    case 6: {
      const std::string sign = random() % 3 == 0 ? "-" : random() % 3 == 0 ? "+" : "";
      return sign + digits(random, random() % 25) + "." + digits(random, 1 + random() % 25);
    }
    default:
      return digits(random, 1 + random() % 22) + "e" + (random() % 2 ? "-" : "") + digits(random, 1 + random() % 3);
  }
  return text;
}

void a_number_equals_strtod() {
  std::mt19937_64 random(7);
  for (int i = 0; i < (kSmallMemory ? 30000 : 1000000); ++i) check_as_strtod(random_number(random));
  for (const char* text : {"0",
                           "-0",
                           "+0",
                           "0.0",
                           "-0.0e5",
                           ".5",
                           "5.",
                           "-.5e-3",
                           "9007199254740992",
                           "9007199254740993",
                           "9007199254740991e22",
                           "1e22",
                           "1e23",
                           "1e-22",
                           "1e-23",
                           "4.9e-324",
                           "2.5e-324",
                           "2.4703282292062327e-324",
                           "2.4703282292062328e-324",
                           "2.2250738585072011e-308",
                           "2.2250738585072014e-308",
                           "1.7976931348623157e308",
                           "1.7976931348623159e308",
                           "1e309",
                           "-1e309",
                           "1e99999",
                           "1e-99999",
                           "1e999999999999999999999",
                           "0e999999999999999999999",
                           "1E5",
                           "00000000000000000000000000001",
                           "0.00000000000000000000000000000001"}) {
    check_as_strtod(text);
  }
  check_as_strtod(std::string(100000, '7'));
  check_as_strtod("0." + std::string(100000, '0') + "1");
  check_as_strtod(std::string(400, '1') + "e-400");
  check_as_strtod("1" + std::string(400, '0') + "e-400");
  check_as_strtod("0.5" + std::string(1000, '0') + "1");
}

void other_words_are_no_numbers() {
  for (const char* text :
       {"",       "+",       "-",  ".",    "e5",   "1e",   "1e+",   "--1",     "1.2.3", "1f",  "1_000",
        "0x10",   "0x1p3",   " 1", "1 ",   "1,5",  "nano", "infin", "na",      "n",     "1.#", "1.#Q",
        "2.#INF", "1.#INF5", "1#", "nan(", "1.5#", "-+1",  "1e5.0", "\x1b[2J", "one"}) {
    if (!CHECK(!number_in(text))) std::cerr << "  for " << text << "\n";
  }
  CHECK(!number_in(std::string_view("1\0", 2)));
}

void values_without_a_number_are_read() {
  for (const char* text : {"nan", "NaN", "-nan", "+NAN", "nan(ind)", "-nan(ind)", "1.#QNAN", "-1.#IND", "1.#QNAN0",
                           "-1.#IND00", "1.#SNAN"}) {
    const std::optional<double> number = number_in(text);
    if (!CHECK(number && std::isnan(*number))) std::cerr << "  for " << text << "\n";
  }
  for (const char* text : {"inf", "Inf", "+inf", "INFINITY", "1.#INF", "1.#INF00", "1.#INF000"}) {
    if (!CHECK(number_in(text) == HUGE_VAL)) std::cerr << "  for " << text << "\n";
  }
  for (const char* text : {"-inf", "-Infinity", "-1.#INF"}) CHECK(number_in(text) == -HUGE_VAL);
}

void the_locale_does_not_matter() {
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8"}) {
    if (std::setlocale(LC_NUMERIC, name)) break;
  }
  CHECK(number_in("1.2345678901234567890") == 1.2345678901234567890);
  CHECK(number_in("1.5e-200") == 1.5e-200);
  std::setlocale(LC_NUMERIC, "C");
}

Names lines_of(const std::string& text, bool lone_returns = false) {
  const std::vector<char> exact(text.begin(), text.end());
  Lines lines(std::string_view(exact.data(), exact.size()), lone_returns);
  Names all;
  for (std::string_view line; lines.next(line);) all.emplace_back(line);
  CHECK(lines.rest().empty());
  return all;
}

void every_end_of_a_line_counts() {
  CHECK(lines_of("") == Names());
  CHECK(lines_of("a") == (Names{"a"}));
  CHECK(lines_of("a\nb\r\nc\rd") == (Names{"a", "b", "c", "d"}));
  CHECK(lines_of("\n\r\n\r\n\n") == (Names{"", "", "", ""}));
  CHECK(lines_of("\r\ra\n\rb") == (Names{"", "", "a", "", "b"}));
  CHECK(lines_of("a\r\nb\r", true) == (Names{"a", "", "b"}));
  Lines lines("1\r2\n3");
  std::string_view line;
  while (lines.next(line)) continue;
  CHECK_EQUAL(lines.where(), "line 3");
  CHECK_EQUAL(lines.where(1), "line 3, column 2");
}

void words_are_split_at_blanks() {
  Words words;
  split_blanks("  a\tbc \v d\f", 10, words);
  CHECK((words == Words{"a", "bc", "d"}));
  split_blanks("a b c", 2, words);
  CHECK((words == Words{"a", "b"}));
  split_blanks(" \t", 2, words);
  CHECK(words.empty());
}

// Printed, not checked: the time depends on the machine. A text of many lines must not be searched more than once.
void speed() {
  std::mt19937_64 random(3);
  std::string text;
  char number[40];
  while (text.size() < (kSmallMemory ? 400000 : 8000000)) {
    for (int i = 0; i < 3; ++i) {
      std::snprintf(number, sizeof number, i < 2 ? "%.6f " : "%.6f\r", static_cast<double>(random() % 20000000) / 1e6);
      text += number;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  Words words;
  std::size_t count = 0;
  Lines lines(text);
  for (std::string_view line; lines.next(line);) {
    split_blanks(line, 3, words);
    for (const std::string_view word : words) count += number_in(word).has_value();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  CHECK(count % 3 == 0 && count > (kSmallMemory ? 30000 : 600000));
  std::cerr << "numbers: " << static_cast<double>(text.size()) / seconds.count() / 1e6 << " MB/s\n";
}

}  // namespace

int main() {
  a_number_equals_strtod();
  other_words_are_no_numbers();
  values_without_a_number_are_read();
  the_locale_does_not_matter();
  every_end_of_a_line_counts();
  words_are_split_at_blanks();
  speed();
  return check_report();
}
