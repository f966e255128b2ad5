#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/ml/space.hpp>
#include <pharos/ml/trial.hpp>

#include "sweep_events.hpp"

namespace pharos::ml {

/// A sweep as TensorBoard reads it: a folder for each trial with its metrics by step, and what the HParams page shows
/// of it. Made anew by each tuner: what was there before comes from the journal. One thread.
class TensorBoard {
 public:
  /// What is in the folder goes.
  static Result<TensorBoard> make(const std::filesystem::path& folder, const Space& space, const std::string& metric);

  /// What has happened to that trial.
  void add(const SweepEvent& event, const TrialResult& trial);
  /// What has come since is in the files.
  Result<void> write();

 private:
  TensorBoard(std::filesystem::path folder, std::string metric, double began)
      : folder_{std::move(folder)}, metric_{std::move(metric)}, began_{began} {}

  void add_metrics(const TrialResult& trial, std::uint64_t step, double seconds, const Metrics& metrics);
  std::string& file_of(std::uint64_t trial);

  std::filesystem::path folder_;
  std::string metric_;
  double began_;                                           // by the calendar
  std::map<std::filesystem::path, std::string> to_write_;  // by file
  std::vector<bool> begun_;                                // by trial
};

}  // namespace pharos::ml
