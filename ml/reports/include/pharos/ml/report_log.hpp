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

/// Metrics as they come, a line for each: reports.csv and reports.jsonl in a folder. A line begins with whole numbers,
/// such as {"epoch", "step"}, and the seconds. One thread.
class PHAROS_API ReportLog {
 public:
  /// Anew.
  static Result<ReportLog> make(const std::filesystem::path& folder, std::vector<std::string> first_columns);
  /// Behind what is there, but for a line that has no end.
  static Result<ReportLog> go_on(const std::filesystem::path& folder, std::vector<std::string> first_columns);

  /// The first column's number in the last line that was there; none: there was no line.
  std::optional<std::uint64_t> last() const { return last_; }
  /// One number for each of the first columns. Where nothing can be written for long, lines are left out.
  void add(std::initializer_list<std::uint64_t> first, double seconds, const std::vector<Metrics::Entry>& metrics);
  /// What has come since is in the files. After an error the files have whole lines, and the next call tries again.
  Result<void> write();

 private:
  ReportLog(std::filesystem::path csv_path, Fd csv, Fd json, std::vector<std::string> first_columns)
      : csv_path_{std::move(csv_path)},
        csv_{std::move(csv)},
        json_{std::move(json)},
        first_columns_{std::move(first_columns)} {}
  /// Its column; one that is new makes the file anew with a wider head.
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
  std::optional<std::size_t> written_columns_;  // none: there is no head
  std::string csv_lines_;
  std::string json_lines_;
  std::vector<const double*> row_;
};

/// For a field of a line of CSV.
PHAROS_API std::string csv_field(std::string_view text);
PHAROS_API void append_number(std::string& to, double value);
PHAROS_API void append_number(std::string& to, std::uint64_t value);

}  // namespace pharos::ml
