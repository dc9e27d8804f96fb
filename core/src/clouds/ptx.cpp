// PTX, the exchange format of Leica: one or more scans, each a grid of points in the coordinates of its scanner.
//
//   columns of the grid
//   rows of the grid
//   position of the scanner: x y z
//   axes of the scanner: 3 lines of 3 numbers
//   matrix: 4 lines of 4 numbers; (x y z 1) times the matrix gives the point in common coordinates
//   columns * rows lines: x y z intensity, or x y z intensity red green blue; x y z is 0 0 0 where nothing was hit
#include <cmath>
#include <limits>

#include "clouds/formats.h"
#include "clouds/lines.h"

namespace bipointnet::clouds {
namespace {

constexpr const char* kCutShort = "; the file is cut short, copy it again from its source";
constexpr const char* kNames[] = {"x", "y", "z", "intensity", "red", "green", "blue"};
constexpr std::size_t kShortestPoint = 7;  // bytes of "0 0 0 0"

class PtxReader {
 public:
  explicit PtxReader(std::string_view bytes) : lines_(bytes) {}

  Parsed parse() {
    std::size_t scans = 0;
    while (next_line()) {
      read_scan();
      ++scans;
    }
    if (parsed_.columns.empty()) refuse("", "0 points", "at least 1; export the file again from its source");
    parsed_.format = "PTX, " + text_of(scans) + (scans == 1 ? " scan" : " scans");
    return std::move(parsed_);
  }

 private:
  // Skips empty lines; they occur between scans.
  bool next_line() {
    while (lines_.next(line_)) {
      line_ = trimmed(line_);
      if (!line_.empty()) return true;
    }
    return false;
  }

  void need_line(const char* expected) {
    if (!next_line()) refuse("", std::string("the end of the file"), expected + std::string(kCutShort));
  }

  std::uint64_t take_count(const char* what) {
    const std::optional<std::uint64_t> count = whole_number(line_);
    if (!count) refuse(lines_.where(), excerpt(line_), std::string("the number of ") + what + " of a scan");
    return *count;
  }

  // The numbers of the current line into numbers_.
  void take_numbers(std::size_t least, std::size_t most) {
    split_blanks(line_, most + 1, words_);
    if (words_.size() < least || words_.size() > most) {
      refuse(lines_.where(), text_of(words_.size()) + " numbers in " + excerpt(line_),
             text_of(least) + (trimmed(lines_.rest()).empty() ? kCutShort : "; export the file again from its source"));
    }
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::optional<double> number = number_in(words_[i]);
      if (!number) refuse(lines_.where(i), excerpt(words_[i]), "a number");
      numbers_[i] = *number;
    }
  }

  void read_matrix() {
    for (auto& row : matrix_) {
      need_line("4 lines with the matrix of a scan");
      take_numbers(4, 4);
      for (std::size_t i = 0; i < 4; ++i) row[i] = numbers_[i];
      const double last = &row == &matrix_[3] ? 1 : 0;
      if (std::abs(row[3] - last) > 1e-6 || !std::isfinite(row[0] + row[1] + row[2])) {
        refuse(lines_.where(), excerpt(line_), "a row of a rigid motion that ends with " + text_of(last == 1 ? 1 : 0));
      }
    }
  }

  void read_scan() {
    const std::uint64_t columns = take_count("columns");
    need_line("the number of rows of a scan");
    const std::uint64_t rows = take_count("rows");
    const std::string where = lines_.where();
    for (int i = 0; i < 4; ++i) {
      need_line("4 lines with the pose of the scanner");
      take_numbers(3, 3);
    }
    read_matrix();
    const std::uint64_t most = lines_.rest().size() / kShortestPoint + 1;
    if (columns > 0 && rows > most / columns) {
      refuse(where, text_of(columns) + " columns times " + text_of(rows) + " rows",
             "at most " + text_of(most) + " points in the rest of the file" + kCutShort);
    }
    for (std::uint64_t i = 0; i < columns * rows; ++i) {
      if (!next_line()) {
        refuse(where, text_of(i) + " points", text_of(columns * rows) + kCutShort);
      }
      add_point();
    }
  }

  void add_point() {
    const std::size_t width = parsed_.columns.size();
    take_numbers(width ? width : 4, width ? width : 7);
    if (width == 0) {
      if (words_.size() != 4 && words_.size() != 7) {
        refuse(lines_.where(), text_of(words_.size()) + " numbers in " + excerpt(line_),
               "4 or 7: x y z intensity r g b");
      }
      for (std::size_t i = 0; i < words_.size(); ++i) parsed_.columns.push_back({kNames[i], 0, {}});
    }
    const bool hit = numbers_[0] != 0 || numbers_[1] != 0 || numbers_[2] != 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      double number = numbers_[i];
      if (i < 3) {
        number = std::numeric_limits<double>::quiet_NaN();
        if (hit) {
          number =
              numbers_[0] * matrix_[0][i] + numbers_[1] * matrix_[1][i] + numbers_[2] * matrix_[2][i] + matrix_[3][i];
        }
      }
      parsed_.columns[i].values.push_back(number);
    }
  }

  Lines lines_;
  std::string_view line_;
  Words words_;
  double numbers_[8] = {};
  double matrix_[4][4] = {};
  Parsed parsed_;
};

}  // namespace

Parsed parse_ptx(std::string_view bytes, const Source&) { return PtxReader(bytes).parse(); }

}  // namespace bipointnet::clouds
