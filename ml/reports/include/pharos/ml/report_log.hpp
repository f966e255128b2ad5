#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/metrics.hpp>

namespace pharos::ml {

/// Writes reports to reports.csv and reports.jsonl in a folder, a line for each report. A line begins with whole
/// numbers, whose columns are given (such as {"epoch", "step"}), and the seconds; the metrics follow. Owned by
/// TrainLog, and by SweepFolder; one thread. At most about 64 MiB of lines wait to be written. The destructor closes
/// the files and drops the lines that wait.
class PHAROS_API ReportLog {
 public:
  /// Begins new files, and overwrites those that are there. Fails with the error of the system, as go_on() does; the
  /// folder must exist.
  static Result<ReportLog> make(const std::filesystem::path& folder, std::vector<std::string> first_columns);
  /// Continues the files that are there, or begins new ones. An incomplete last line is removed. kFailedPrecondition if
  /// reports.csv has other first columns.
  static Result<ReportLog> go_on(const std::filesystem::path& folder, std::vector<std::string> first_columns);

  /// The number in the first column of the last line that go_on() has found; nullopt if there was no line.
  std::optional<std::uint64_t> last() const { return last_; }
  /// Adds a line, which write() writes. `first` has one number for each of the first columns. While too many lines wait
  /// because writing fails, new lines are left out.
  void add(std::initializer_list<std::uint64_t> first, double seconds, const std::vector<Metrics::Entry>& metrics);
  /// Writes the lines that have been added. After an error the files have whole lines only, and the next call tries
  /// again. If the system refuses also to remove an incomplete line, the next call overwrites that line.
  Result<void> write();

 private:
  ReportLog(std::filesystem::path csv_path, Fd csv, Fd json, std::vector<std::string> first_columns)
      : csv_path_{std::move(csv_path)},
        csv_{std::move(csv)},
        json_{std::move(json)},
        first_columns_{std::move(first_columns)} {}
  /// Returns the column of the metric. A new one gets the next column, and write() then rewrites the file with a wider
  /// header.
  std::size_t column_of(const std::string& name);
  bool take_columns(std::string_view head);
  Result<void> widen();

  std::filesystem::path csv_path_;
  Fd csv_;
  Fd json_;
  std::vector<std::string> first_columns_;
  std::optional<std::uint64_t> last_;
  std::vector<std::string> columns_;
  std::vector<std::string> json_names_;         // `,"name":`
  std::optional<std::size_t> written_columns_;  // columns in the file's header; none if it has no header
  std::string csv_lines_;
  std::string json_lines_;
  std::vector<const double*> row_;
};

/// Quotes the text for a field of CSV, if necessary.
PHAROS_API std::string csv_field(std::string_view text);
/// Appends the shortest text that gives the same number when it is read.
PHAROS_API void append_number(std::string& to, double value);
PHAROS_API void append_number(std::string& to, std::uint64_t value);

}  // namespace pharos::ml
