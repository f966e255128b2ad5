#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/ml/report_log.hpp>
#include <pharos/ml/sweep_results.hpp>

#include "run/checkpoint_files.hpp"
#include "run/journal.hpp"
#include "run/sweep_events.hpp"
#include "show/tensorboard.hpp"

namespace pharos::ml {

/// What a sweep keeps in its folder: the journal, the checkpoints of trials, and logs of their reports. Before open(),
/// and for a sweep that keeps nothing, all functions do nothing. Owned by SweepLoop; one thread.
class SweepFolder {
 public:
  enum class Existing : std::uint8_t { kRefused, kContinued };
  struct Keeps {
    bool log_reports = false;
    bool tensorboard = false;
    bool durable = true;
  };
  using Saved = std::map<std::uint64_t, std::uint64_t>;  ///< by trial: the step of its checkpoint

  /// Makes the folder, and locks its journal. Fails if another tuner works in the folder, or if it has a sweep that is
  /// not to be continued.
  Result<void> open(const std::filesystem::path& folder, const JournalHead& head, Existing existing, const Keeps& keeps,
                    const Space& space);
  /// If an earlier tuner has begun the sweep: passes its events to `take`, which calls log() for them.
  Result<void> replay(const std::function<Result<void>(const SweepEvent& event)>& take);
  /// Called after replay(). `saved` has the checkpoints of trials that are to be kept; others are removed.
  Result<void> open_checkpoints(const Saved& saved);
  /// Returns a checkpoint of `saved`.
  Result<Bytes> read_checkpoint(std::uint64_t trial, std::uint64_t step) const;

  /// Adds an event to the journal and the logs. `trial` is the trial of the event, after the event.
  void note(const SweepEvent& event, const TrialResult& trial);
  /// Adds an event to the logs only.
  void log(const SweepEvent& event, const TrialResult& trial);
  /// Writes what has been noted.
  Result<void> write();
  /// Waits until the journal is synced, if it is durable.
  Result<void> sync();

  /// Begins to write a checkpoint. written_checkpoints() returns it when that is done.
  void write_checkpoint(std::uint64_t trial, std::uint64_t step, const Bytes& checkpoint);
  std::vector<CheckpointFiles::Written> written_checkpoints();
  /// Waits until all checkpoints are written.
  void finish_checkpoints();
  /// Removes the trial's checkpoints before this step, which the journal does not name any more.
  void forget_before(std::uint64_t trial, std::uint64_t step);
  void forget(std::uint64_t trial);

  /// The folder; empty if nothing is kept.
  const std::filesystem::path& path() const { return path_; }

 private:
  Result<void> begin_logs(const Keeps& keeps, const Space& space);
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  std::filesystem::path path_;
  std::string metric_;
  bool goes_on_ = false;  // an earlier tuner has begun the sweep
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<CheckpointFiles> files_;
  std::optional<ReportLog> log_;
  std::optional<TensorBoard> board_;
};

}  // namespace pharos::ml
