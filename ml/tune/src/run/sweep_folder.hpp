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
/// and for a sweep that keeps nothing, all functions do nothing (read_checkpoint() must not be called). Owned by
/// SweepLoop; one thread. The destructor waits until checkpoints and the journal are written, and ignores errors; what
/// the logs have not written is dropped.
class SweepFolder {
 public:
  enum class Existing : std::uint8_t { kRefused, kContinued };
  struct Keeps {
    bool log_reports = false;
    bool tensorboard = false;
    bool durable = true;
  };
  using Saved = std::map<std::uint64_t, std::uint64_t>;  ///< by trial: the step of its checkpoint

  /// Makes the folder, and locks its journal. Fails with kAlreadyExists if it has a sweep that is not to be continued,
  /// else with kFailedPrecondition if another tuner works in the folder, and with errno if the folder or the logs
  /// cannot be made. With an empty path the sweep keeps nothing. The logs of an earlier tuner are overwritten.
  Result<void> open(const std::filesystem::path& folder, const JournalHead& head, Existing existing, const Keeps& keeps,
                    const Space& space);
  /// If an earlier tuner has begun the sweep: passes its events to `take`, which calls log() for them. Fails as
  /// Journal::read().
  Result<void> replay(const std::function<Result<void>(const SweepEvent& event)>& take);
  /// Called after replay(). `saved` has the checkpoints of trials that are to be kept; others are removed.
  Result<void> open_checkpoints(const Saved& saved);
  /// Returns a checkpoint of `saved`. Fails as CheckpointFiles::read().
  Result<Bytes> read_checkpoint(std::uint64_t trial, std::uint64_t step) const;

  /// Adds an event to the journal and the logs. `trial` is the trial of the event, after the event.
  void note(const SweepEvent& event, const TrialResult& trial);
  /// Adds an event to the logs only.
  void log(const SweepEvent& event, const TrialResult& trial);
  /// Writes what has been noted to the journal, and then to the logs. Returns the first error. An error of the journal
  /// stays; the logs try again at the next call.
  Result<void> write();
  /// Writes the journal and waits until it is synced, if it is durable.
  Result<void> sync();

  /// Begins to write a checkpoint. written_checkpoints() returns it, with its error if there was one, when that is
  /// done; a newer checkpoint of the trial may take its place before.
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
