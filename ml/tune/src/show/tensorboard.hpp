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

#include "run/sweep_events.hpp"

namespace pharos::ml {

/// The files of a sweep for TensorBoard: a folder for each trial, with its metrics by step and with its entry on the
/// HParams page. Each tuner makes the files anew; a continued sweep adds the earlier events from its journal. Owned by
/// SweepFolder; one thread. The destructor drops events that were not written.
class TensorBoard {
 public:
  /// Removes the contents of the folder. Fails with errno if the folder cannot be made.
  static Result<TensorBoard> make(const std::filesystem::path& folder, const Space& space, const std::string& metric);

  /// Adds an event. `trial` is the state of its trial after the event.
  void add(const SweepEvent& event, const TrialResult& trial);
  /// Writes what was added since the last call. Ends with the first error; the next call tries again.
  Result<void> write();

 private:
  TensorBoard(std::filesystem::path folder, std::string metric, double began)
      : folder_{std::move(folder)}, metric_{std::move(metric)}, began_{began}, own_{folder_, began} {}

  TensorBoardFile& file_of(const TrialResult& trial);

  std::filesystem::path folder_;
  std::string metric_;
  double began_;  // seconds since 1970
  TensorBoardFile own_;
  std::map<std::uint64_t, TensorBoardFile> files_;  // by trial
};

}  // namespace pharos::ml
