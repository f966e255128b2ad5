#include <locale.h>
#include <stdlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <unordered_set>

#include <pharos/ml/readers.hpp>

#include "file_bytes.hpp"

namespace pharos::ml {
namespace {

/// Splits the text into lines and their fields.
class CsvReader {
 public:
  CsvReader(const std::filesystem::path& path, std::string_view text, char separator)
      : path_{path}, text_{text}, separator_{separator} {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // Excel's files begin with this
  }

  bool at_end() const { return at_ == text_.size(); }
  /// The line where the fields of the last next() began.
  std::size_t line() const { return line_; }

  std::vector<std::string> next() {
    line_ = next_line_;
    std::vector<std::string> fields;
    for (;;) {
      fields.push_back(field());
      if (at_end()) return fields;
      const char end = text_[at_++];
      if (end == separator_) continue;
      if (end == '\r' && !at_end() && text_[at_] == '\n') ++at_;
      ++next_line_;
      return fields;
    }
  }

 private:
  std::string field() {
    if (at_end() || text_[at_] != '"') {
      const std::size_t begin = at_;
      while (!at_end() && !ends_field(text_[at_])) ++at_;
      return std::string{text_.substr(begin, at_ - begin)};
    }
    std::string value;
    for (++at_;; ++at_) {
      if (at_end()) throw_corrupt(path_, "line " + std::to_string(line_) + ": a quote is not closed");
      if (text_[at_] == '\n') ++next_line_;
      if (text_[at_] != '"') {
        value += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        value += text_[++at_];
      } else {
        break;
      }
    }
    if (++at_ < text_.size() && !ends_field(text_[at_])) {
      throw_corrupt(path_, "line " + std::to_string(next_line_) + ": something follows a closed quote");
    }
    return value;
  }
  bool ends_field(char c) const { return c == separator_ || c == '\n' || c == '\r'; }

  const std::filesystem::path& path_;
  std::string_view text_;
  const char separator_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t next_line_ = 1;
};

/// Returns infinity, or the number nearest to 0 that a double can have.
double number_out_of_range(std::string_view text) {
  static const locale_t plain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return ::strtod_l(std::string{text}.c_str(), nullptr, plain);
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (stopped != end || text.empty()) return std::nullopt;
  if constexpr (std::is_same_v<Number, double>) {
    if (error == std::errc::result_out_of_range) return number_out_of_range(text);
  }
  if (error != std::errc{}) return std::nullopt;
  return number;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(' ') == std::string_view::npos;
}

/// Returns whole numbers if all texts are; else real numbers, NaN for blanks, if all others are; else the texts.
decltype(Column::values) typed(std::vector<std::string> texts) {
  std::vector<std::int64_t> whole;
  std::vector<double> real;
  bool all_whole = true;
  for (const std::string& each : texts) {
    if (all_whole) {
      const auto number = number_in<std::int64_t>(each);
      all_whole = number.has_value();
      if (all_whole) whole.push_back(*number);
    }
    const auto number = is_blank(each) ? std::numeric_limits<double>::quiet_NaN() : number_in<double>(each);
    if (!number) return texts;
    real.push_back(*number);
  }
  const auto is_number = [](double each) { return !std::isnan(each); };
  if (!texts.empty() && all_whole) return whole;
  if (std::ranges::any_of(real, is_number)) return real;
  return texts;
}

}  // namespace

Table read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  const Bytes file = bytes_of_file(path, Keep::kMapped);
  CsvReader reader{path, {reinterpret_cast<const char*>(file.data()), file.size()}, options.separator};
  if (reader.at_end()) throw_corrupt(path, "it is empty");

  std::vector<std::string> names;
  if (options.has_names) {
    names = reader.next();
    std::unordered_set<std::string> seen;
    for (const std::string& each : names) {
      if (!seen.insert(each).second) {
        throw_corrupt(path, "line " + std::to_string(reader.line()) + " has two columns \"" + each + "\"");
      }
    }
  }
  std::vector<std::vector<std::string>> columns(names.size());
  std::size_t rows = 0;
  while (!reader.at_end()) {
    std::vector<std::string> fields = reader.next();
    const bool is_empty = fields.size() == 1 && fields[0].empty() && columns.size() != 1;
    if (is_empty) continue;
    if (rows == 0 && !options.has_names) {
      for (std::size_t i = 0; i < fields.size(); ++i) names.push_back(std::to_string(i));
      columns.resize(fields.size());
    }
    if (fields.size() != columns.size()) {
      throw_corrupt(path, "line " + std::to_string(reader.line()) + " has " + std::to_string(fields.size()) +
                              " fields, and there are " + std::to_string(columns.size()) + " columns");
    }
    for (std::size_t i = 0; i < fields.size(); ++i) columns[i].push_back(std::move(fields[i]));
    ++rows;
  }
  std::vector<Column> typed_columns;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    typed_columns.push_back({std::move(names[i]), typed(std::move(columns[i]))});
  }
  return {std::move(typed_columns), rows};
}

}  // namespace pharos::ml
