// Text: one point per line. Comments, one line with the number of points and one line with the names of the columns may
// precede the points. What is not understood is refused, since a wrong guess would give wrong points.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "clouds/columns.h"
#include "clouds/fields.h"
#include "clouds/formats.h"
#include "clouds/lines.h"

namespace bipointnet::clouds {
namespace {

struct OtherKind {
  std::string_view begins;
  const char* name;
};

constexpr OtherKind kOtherKinds[] = {{"ply\n", "a PLY file"},        {"ply\r", "a PLY file"},
                                     {"LASF", "a LAS file"},         {"# .PCD", "a PCD file"},
                                     {"OFF\n", "an OFF file"},       {"OFF\r", "an OFF file"},
                                     {"\x93NUMPY", "a NumPy array"}, {"PK\x03\x04", "a ZIP archive"},
                                     {"\x1F\x8B", "a gzip archive"}, {"\x89HDF", "an HDF5 file"}};

void check_is_text(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, 4096);
  if (head.substr(0, 2) == "\xFF\xFE" || head.substr(0, 2) == "\xFE\xFF") {
    refuse("", "text in UTF-16", "UTF-8; save the file as UTF-8 or plain text");
  }
  for (const OtherKind& kind : kOtherKinds) {
    if (head.substr(0, kind.begins.size()) == kind.begins) {
      refuse("", std::string("the first bytes of ") + kind.name, "text; give the file the suffix of its format");
    }
  }
  if (head.find('\0') != std::string_view::npos) {
    refuse("", "binary bytes", "text in UTF-8; check the suffix, or save the file as plain text");
  }
}

const char* end_of(std::string_view text) { return text.data() + text.size(); }

class TextReader {
 public:
  TextReader(std::string_view bytes, const Source& source) : bytes_(bytes), source_(source), lines_(bytes) {}

  Parsed parse() {
    read_preamble();
    read_rows();
    if (rows_ < declared_) {
      refuse("", text_of(rows_) + " points",
             text_of(declared_) + " as the file declares; it is cut short, copy it again from its source");
    }
    if (has_count_ && rows_ > declared_) {
      parsed_.notes.push_back("the file declares " + text_of(declared_) + " points and holds " + text_of(rows_));
    }
    if (decimal_commas_) parsed_.notes.push_back("commas are read as decimal marks");
    parsed_.format = separator_ == ','   ? "text, separated by commas"
                     : separator_ == ';' ? "text, separated by semicolons"
                                         : "text, separated by blanks";
    if (!named_) name_by_position(parsed_.columns, source_.suffix, parsed_.notes);
    return std::move(parsed_);
  }

 private:
  // Reads up to the first row, and that row.
  void read_preamble() {
    for (std::string_view line; lines_.next(line);) {
      line = trimmed(line);
      if (line.empty()) continue;
      if (is_comment(line)) {
        consider_comment(line);
        continue;
      }
      line = without_comment(line);
      split_row(line, separator_of(line, fields_));
      if (take_count(line)) continue;
      const auto is_number = [this](std::string_view field) { return number(field).has_value(); };
      if (std::any_of(fields_.begin(), fields_.end(), is_number)) {
        if (numbers_the_columns()) continue;
        start_rows(line);
        return;
      }
      if (!header_line_.empty()) refuse(lines_.where(), excerpt(line), "numbers; remove the line");
      header_line_ = lines_.where();
      header_ = names_in(fields_);
      if (source_.columns.empty() && !coordinate_columns(header_)) {
        refuse(header_line_, "the columns " + listed(header_), "x, y and z, or numbers; name them with --columns");
      }
    }
    refuse("", "0 points", "at least 1; export the file again from its source");
  }

  // A comment may name the columns. It counts only if it fits the rows.
  void consider_comment(std::string_view line) {
    constexpr std::size_t most = 8;
    line.remove_prefix(std::min(line.find_first_not_of("#/% \t"), line.size()));
    if (!source_.columns.empty() || line.empty()) return;
    split_row(line, separator_of(line, fields_));
    for (std::size_t i = fields_.size(); i-- > 0;) {  // "Columns: x y z"
      if (fields_[i].empty() || fields_[i].back() != ':') continue;
      fields_.erase(fields_.begin(), fields_.begin() + static_cast<std::ptrdiff_t>(i + 1));
      break;
    }
    if (fields_.size() < 3) return;
    std::vector<std::string> names = names_in(fields_);
    if (!names_coordinates_once(names)) return;
    if (comments_.size() == most) comments_.erase(comments_.begin());
    comments_.push_back({lines_.where(), std::move(names)});
  }

  bool take_count(std::string_view line) {
    if (has_count_ || fields_.size() != 1 || line.find_first_not_of("0123456789") != std::string_view::npos)
      return false;
    const std::optional<std::uint64_t> count = whole_number(line);
    if (!count) refuse(lines_.where(), excerpt(line), "a number of points that a file can hold");
    declared_ = *count;
    has_count_ = true;
    return true;
  }

  // pandas numbers columns without names: "0,1,2" above rows of fractions is no point.
  bool numbers_the_columns() {
    if (fields_.size() < 3 || has_count_ || !header_line_.empty() || source_.suffix != ".csv") return false;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i] != text_of(i)) return false;
    }
    Lines ahead = lines_;
    std::string_view line;
    Words next;
    if (ahead.next(line)) split_fields(trimmed(line), ',', kMaxColumns, next);
    const bool header = next.size() == fields_.size() &&
                        std::all_of(next.begin(), next.end(),
                                    [](std::string_view field) { return field.find('.') != std::string_view::npos; });
    if (header) parsed_.notes.push_back(lines_.where() + " numbers the columns from 0 and is not read as a point");
    return header;
  }

  void start_rows(std::string_view line) {
    separator_ = separator_of(line, fields_);
    width_ = header_.size();
    split_row(line, separator_);
    width_ = fields_.size();
    rows_begin_ = line.data();
    first_row_ = lines_.where();
    if (width_ > kMaxColumns) {
      refuse(first_row_, "more than " + counted_columns(kMaxColumns),
             "one point per line; check the ends of the lines");
    }
    if (separator_ == ',' && has_two_kinds_of_commas(line)) {
      refuse(first_row_, excerpt(line) + " with commas as separators and as decimal marks", "numbers like 1.5");
    }
    const std::vector<std::string> names = column_names();
    named_ = !names.empty();
    choose_columns(names, line);
    const std::size_t rows = bytes_.size() / std::max<std::size_t>(line.size(), 1);
    row_.resize(kept_.size());
    for (Column& column : parsed_.columns) column.values.reserve(std::min(rows, bytes_.size() / (2 * width_)) + 1);
    if (!add_row(line)) refuse_row(line);
  }

  // The names from --columns, the header or a comment; empty if the file names none.
  std::vector<std::string> column_names() {
    if (!source_.columns.empty()) {
      check_column_count(source_.columns, width_, first_row_);
      return source_.columns;
    }
    if (!header_line_.empty()) {
      while (header_.size() > width_ && header_.back().empty()) header_.pop_back();
      if (header_.size() == width_) return header_;
      refuse(first_row_, counted_columns(width_),
             text_of(header_.size()) + " as in " + header_line_ + "; name all columns there or with --columns");
    }
    for (auto comment = comments_.rbegin(); comment != comments_.rend(); ++comment) {
      if (comment->names.size() == width_) return comment->names;
    }
    // "id x y z" above rows of another width is no prose; "x y z" agrees with the reading without names.
    for (const Comment& comment : comments_) {
      const Triple xyz = *coordinate_columns(comment.names);
      if (xyz[0] == 0 || xyz[1] != xyz[0] + 1 || xyz[2] != xyz[1] + 1) continue;
      refuse(first_row_, counted_columns(width_),
             text_of(comment.names.size()) + " as in the comment in " + comment.line +
                 "; name the columns with --columns");
    }
    return {};
  }

  // Chooses the columns of numbers. Text is left out, unless it is where coordinates should be.
  void choose_columns(const std::vector<std::string>& names, std::string_view line) {
    if (!names.empty() && !coordinate_columns(names)) {
      refuse("", "the columns " + listed(names), "x, y and z among --columns");
    }
    for (std::size_t i = 0; i < width_; ++i) {
      if (!names.empty() && names[i] == "-" && !source_.columns.empty()) continue;
      const bool is_number = number(fields_[i]).has_value();
      if (!is_number && names.empty() && i < 3) {
        if (width_ < 3) break;
        refuse(lines_.where(), excerpt(line), "numbers, or the names of the columns; name them with --columns");
      }
      if (!is_number && is_coordinate(names, i)) refuse_number(i);
      if (!is_number && !source_.columns.empty()) refuse_number(i, "a number; write - for this column in --columns");
      if (!is_number) {
        const std::string name = names.empty() ? "column " + text_of(i + 1) : "the column " + excerpt(names[i]);
        parsed_.notes.push_back(name + " holds text and was left out");
        continue;
      }
      kept_.push_back(i);
      parsed_.columns.push_back({names.empty() ? "" : names[i], 0, {}});
    }
    if (kept_.size() < 3) {
      refuse(lines_.where(), counted_columns(width_) + " in " + excerpt(line), "at least 3: x, y and z");
    }
  }

  static bool is_coordinate(const std::vector<std::string>& names, std::size_t column) {
    if (names.empty()) return column < 3;
    const Triple xyz = *coordinate_columns(names);
    return std::find(xyz.begin(), xyz.end(), column) != xyz.end();
  }

  void read_rows() {
    for (std::string_view line; lines_.next(line);) {
      while (!line.empty() && is_blank(line[0])) line.remove_prefix(1);
      if (line.empty() || is_comment(line) || add_row(line)) continue;
      line = without_comment(line);
      if (line.empty() || add_row(line) || next_block(line)) continue;
      refuse_row(line);
    }
  }

  // Leica's .pts files may hold several scans, each with the number of its points.
  bool next_block(std::string_view line) {
    const std::optional<std::uint64_t> count = whole_number(line);
    if (!count || !has_count_ || rows_ != declared_ || *count > bytes_.size()) return false;
    declared_ += *count;
    return true;
  }

  // One separator at the end of a line adds no column.
  void split_row(std::string_view line, char separator) {
    split_fields(line, separator, kMaxColumns + 2, fields_);
    if (fields_.size() > 1 && fields_.back().empty() && separator != ' ' && (width_ == 0 || fields_.size() > width_)) {
      fields_.pop_back();
    }
  }

  bool add_row(std::string_view line) {
    split_row(line, separator_);
    if (fields_.size() != width_) return false;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const std::string_view field = fields_[kept_[i]];
      // pandas writes nothing for a missing value. At the very end of a file it may as well have been cut off.
      const bool missing = field.empty() && !(kept_[i] + 1 == width_ && end_of(line) == end_of(bytes_));
      const std::optional<double> value = missing ? std::nan("") : number(field);
      if (!value) return false;
      row_[i] = *value;
    }
    for (std::size_t i = 0; i < kept_.size(); ++i) parsed_.columns[i].values.push_back(row_[i]);
    ++rows_;
    return true;
  }

  // A comma is a decimal mark if it separates no columns and no number of the file has a point.
  std::optional<double> number(std::string_view field) {
    const std::optional<double> plain = number_in(field);
    if (plain && !decimal_commas_) return plain;
    if (plain) return field.find('.') == std::string_view::npos ? plain : std::nullopt;
    const std::size_t comma = field.find(',');
    if (separator_ == ',' || comma == std::string_view::npos || field.find('.') != std::string_view::npos) {
      return std::nullopt;
    }
    std::string copy(field);
    copy[comma] = '.';
    const std::optional<double> value = number_in(copy);
    if (!value || decimal_commas_ || !rows_begin_) return value;
    if (std::memchr(rows_begin_, '.', static_cast<std::size_t>(field.data() - rows_begin_))) return std::nullopt;
    decimal_commas_ = true;
    return value;
  }

  [[noreturn]] void refuse_number(std::size_t column, const char* expected = "a number; correct or remove the line") {
    refuse(lines_.where(column), excerpt(fields_[column]), expected);
  }

  [[noreturn]] void refuse_row(std::string_view line) {
    if (fields_.size() != width_) {
      const bool last = lines_.rest().find_first_not_of(" \t\r\n") == std::string_view::npos && fields_.size() < width_;
      refuse(lines_.where(), counted_columns(fields_.size()) + " in " + excerpt(line),
             text_of(width_) + " as in " + first_row_ +
                 (last ? "; the file is cut short, copy it again" : "; correct or remove the line"));
    }
    for (const std::size_t column : kept_) {
      if (number(fields_[column])) continue;
      refuse_number(column);
    }
    refuse(lines_.where(), excerpt(line), "numbers");
  }

  struct Comment {
    std::string line;
    std::vector<std::string> names;
  };

  std::string_view bytes_;
  const Source& source_;
  Lines lines_;
  Words fields_;
  Parsed parsed_;
  std::uint64_t declared_ = 0, rows_ = 0;
  bool has_count_ = false, named_ = false, decimal_commas_ = false;
  std::string header_line_;  // like "line 1"; empty without a header
  std::vector<std::string> header_;
  std::vector<Comment> comments_;
  char separator_ = ' ';
  std::size_t width_ = 0;  // columns of the file
  std::string first_row_;
  std::vector<std::size_t> kept_;  // the columns that hold numbers
  std::vector<double> row_;
  const char* rows_begin_ = nullptr;
};

}  // namespace

Parsed parse_text(std::string_view bytes, const Source& source) {
  bytes = without_mark(bytes);
  check_is_text(bytes);
  return TextReader(bytes, source).parse();
}

}  // namespace bipointnet::clouds
