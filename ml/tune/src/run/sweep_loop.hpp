#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <pharos/ml/searcher.hpp>
#include <pharos/ml/space.hpp>
#include <pharos/ml/sweep_results.hpp>
#include <pharos/ml/trial_scheduler.hpp>

#include "run/failures_alike.hpp"
#include "run/slots.hpp"
#include "run/sweep.hpp"
#include "run/sweep_folder.hpp"
#include "show/progress.hpp"

namespace pharos::ml {

/// Runs a sweep in its slots. Events of the slots go to the Sweep, and its decisions go to the slots once the events
/// are in the journal. Lives in run_sweep(); one thread. What the searcher, the scheduler and the slots throw leaves
/// keep_in() and run() (except as Sweep::ask() says), and the sweep then ends. Trials that run at the end of run() stay
/// in their slots: the owner of the slots ends them. The destructor writes what the folder has not written yet.
class SweepLoop {
 public:
  struct Times {
    Duration silence{};
    Duration grace{};
    std::uint64_t save_every = 0;
  };

  /// After the sweep the checkpoints of the best `best_kept_max` trials are kept. `searcher`, `scheduler` and `slots`
  /// must outlive the loop.
  SweepLoop(SweepRules rules, const Space& space, Searcher& searcher, TrialScheduler& scheduler, TrialSlots& slots,
            Times times, std::size_t best_kept_max);

  /// Called once before run(). The sweep is kept in that folder, and continues from what happened there before. Fails
  /// as SweepFolder::open() and Sweep::replay(). A checkpoint that cannot be read is only logged. After an error the
  /// loop is of no use.
  Result<void> keep_in(const std::filesystem::path& folder, const JournalHead& head, SweepFolder::Existing existing,
                       const SweepFolder::Keeps& keeps);
  void show_progress() { progress_.emplace("sweep"); }
  /// Returns when all is done, or when `interrupted` returns true; it is asked after each message, and at least as
  /// often as TrialSlots::look_time() says. Then waits until the checkpoints and the journal are on disk. Fails as soon
  /// as the folder cannot be written to, and with the error of a slot that gets no workers: at once if the error is not
  /// kActorDied, and otherwise at the sixth such error in a row. Fails with kUserError if FailuresAlike::kMax trials in
  /// a row have failed alike, and no trial has a result.
  Result<SweepResults> run(const std::function<bool()>& interrupted);

 private:
  struct Slot {
    std::optional<std::uint64_t> trial{};
    std::optional<std::uint64_t> ahead{};  // the next trial, which the slot already has; it begins when `trial` ends
    TimePoint heard_at{};
    bool is_told = false;  // TrialSlots::stop() was called for the trial
    // When `trial` has ended it starts again, from the checkpoint of the trial of this number (which may be its own).
    std::optional<std::uint64_t> again_as{};
  };

  double seconds() const { return std::chrono::duration<double>(slots_.now() - began_).count() + before_; }
  bool all_have_come_back();
  TimePoint wake_at() const;
  void fill();
  void order_ahead();
  std::optional<std::uint64_t> next();
  std::uint64_t to_begin() const;
  Slot* slot_of(std::uint64_t trial);
  void start(std::size_t slot, std::uint64_t trial, std::uint64_t checkpoint_of);
  void order(std::size_t slot, std::uint64_t trial, std::uint64_t checkpoint_of);
  Result<void> take_message(TrialSlots::Message message);
  Result<void> check_hope() const;
  Result<void> take_loss(std::size_t slot, const Error& lost);
  void take_event(std::size_t slot, detail::TrialEvent& event);
  void take_report(std::size_t slot, const detail::TrialReports& report);
  void take_end(std::size_t slot, const detail::TrialEnds& end);
  void fail(std::size_t slot, const std::string& why, bool may_retry);
  void free(std::size_t slot);
  void give_up(std::size_t slot);
  void trial_is_over(std::uint64_t trial);
  void forget(std::uint64_t trial);
  void forget_paused();
  void look_at_times();
  Result<void> read_checkpoints();
  Result<void> write();
  void say_how_to_go_on() const;
  SweepResults results(bool interrupted);

  TrialSlots& slots_;
  const Times times_;
  const Space space_;
  Sweep sweep_;
  TimePoint began_;
  double before_ = 0;  // seconds that the sweep ran under earlier tuners
  std::vector<Slot> of_slots_;
  std::set<std::size_t> idle_;                         // slots that can be given a trial
  const bool orders_ahead_;                            // short trials are ordered ahead: the searcher learns nothing
  std::size_t short_ones_ = 0;                         // messages in a row that came soon after the slot's last one
  std::vector<std::uint64_t> taken_back_;              // trials that were ordered ahead where a worker has died
  std::vector<std::function<void()>> effects_;         // calls to make once all events are in the journal
  std::map<std::uint64_t, std::uint64_t> kept_steps_;  // by trial: the step of the checkpoint that the slots keep
  std::vector<std::uint64_t> best_kept_;               // ended trials whose checkpoints are kept, the best first
  std::size_t failures_ = 0;                           // failures in a row of slots that had no trial
  FailuresAlike failures_alike_;                       // of trials
  TimePoint over_at_ = TimePoint::max();               // when trials that still run are ended; grace is included

  const std::size_t best_kept_max_;
  SweepFolder folder_;
  std::optional<Progress> progress_;
};

}  // namespace pharos::ml
