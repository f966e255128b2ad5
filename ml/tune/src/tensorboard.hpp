#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <pharos/base/result.hpp>
#include <pharos/ml/space.hpp>
#include <pharos/ml/tensorboard_file.hpp>
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
      : folder_{std::move(folder)}, metric_{std::move(metric)}, began_{began}, own_{folder_, began} {}

  TensorBoardFile& file_of(const TrialResult& trial);

  std::filesystem::path folder_;
  std::string metric_;
  double began_;  // by the calendar
  TensorBoardFile own_;
  std::map<std::uint64_t, TensorBoardFile> files_;  // by trial
};

}  // namespace pharos::ml
