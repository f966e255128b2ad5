#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/trial.hpp>

namespace pharos::ml {

/// Results as they come, a line for each: reports.csv and reports.jsonl in a folder. Made anew by each tuner: what was
/// there before comes from the journal. One thread.
class ReportLog {
 public:
  static Result<ReportLog> make(const std::filesystem::path& folder);

  void add(std::uint64_t trial, std::uint64_t step, double seconds, const std::vector<Metrics::Entry>& metrics);
  /// What has come since is in the files.
  Result<void> write();

 private:
  ReportLog(Fd csv, Fd json) : csv_{std::move(csv)}, json_{std::move(json)} {}
  /// Its column; one that is new makes the file anew with a wider head.
  std::size_t column_of(const std::string& name);
  Result<void> widen();

  Fd csv_;
  Fd json_;
  std::vector<std::string> columns_;
  std::vector<std::string> json_names_;  // `,"name":`
  std::size_t written_columns_ = 0;
  std::string csv_lines_;
  std::string json_lines_;
  std::vector<const double*> row_;
};

/// For a field of a line of CSV.
std::string csv_field(std::string_view text);
void append_number(std::string& to, double value);
void append_number(std::string& to, std::uint64_t value);

}  // namespace pharos::ml
