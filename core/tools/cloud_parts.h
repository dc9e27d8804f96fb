// What the readers of text, raw float32 and PLY share: lines, words, numbers as text or bytes, names of columns,
// errors.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bipointnet {

using Words = std::vector<std::string_view>;

[[noreturn]] void refuse(const std::string& what, const std::string& found, const std::string& expected);

std::string text_of(std::size_t number);

// A part of a file for an error message.
std::string excerpt(std::string_view text);

std::string_view trimmed(std::string_view text);

std::string lowered(std::string_view text);

// The lines of a text, terminated by \n, \r\n or \r.
class Lines {
 public:
  // lone_returns: every \r ends a line, and a \n after it belongs to the next line.
  explicit Lines(std::string_view text, bool lone_returns = false) : rest_(text), lone_returns_(lone_returns) {}

  bool next(std::string_view& line);

  std::string_view rest() const { return rest_; }
  std::string where() const { return "line " + text_of(number_); }
  std::string where(std::size_t column) const { return where() + ", column " + text_of(column + 1); }

 private:
  std::string_view rest_;
  bool lone_returns_;
  std::size_t number_ = 0;
};

// Splits off at most `most` words at blanks.
void split_blanks(std::string_view line, std::size_t most, Words& words);

std::optional<std::size_t> whole_number(std::string_view text);

// Whether a number is finite and within float32.
bool fits(double number);

// The number in a field of a text. `column` is counted from 0.
double number_of(std::string_view text, const Lines& lines, std::size_t column);

[[noreturn]] void refuse_number(double number, std::size_t point, std::string_view name);

std::vector<double> required_points(std::vector<double> numbers);

// The indices of x, y and z, then of the other names in order: `channels` in total. None if x, y or z is missing.
std::optional<std::vector<std::size_t>> columns_of(const Words& names, std::size_t channels);

enum class ScalarKind { integer, natural, real };

struct Scalar {
  std::string_view name, other_name;  // in PLY
  std::size_t size;
  ScalarKind kind;
};

constexpr Scalar kFloat32 = {"float", "float32", 4, ScalarKind::real};

double value_of(std::string_view bytes, const Scalar& type, bool big_endian);

}  // namespace bipointnet
