#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <pharos/ml/report_log.hpp>
#include <pharos/ml/tuner.hpp>

#include "checkpoint_files.hpp"
#include "journal.hpp"
#include "progress.hpp"
#include "slots.hpp"
#include "sweep.hpp"
#include "tensorboard.hpp"

namespace pharos::ml {

/// Brings a sweep and its slots together: what happens in the slots goes to the sweep, which says what is next; what
/// follows goes to the slots when it is in the journal. One thread; owned by Tuner::run().
class SweepLoop {
 public:
  enum class Existing : std::uint8_t { kRefused, kContinued };
  struct Keeps {
    bool log_reports = false;
    bool tensorboard = false;
    bool progress = false;
    bool durable = true;
    std::size_t checkpoints = 1;
  };
  struct Times {
    Duration silence{};
    Duration grace{};
    std::uint64_t save_every = 0;
  };

  SweepLoop(SweepRules rules, const Space& space, Searcher& searcher, TrialScheduler& scheduler, TrialSlots& slots,
            Times times);

  /// Before run(): what happens is in that folder from now on, and what has happened there counts.
  Result<void> keep_in(const std::filesystem::path& folder, const JournalHead& head, Existing existing,
                       const Keeps& keeps);
  /// Until all is done, or `interrupted` says so.
  Result<SweepResults> run(const std::function<bool()>& interrupted);

 private:
  struct Slot {
    std::optional<std::uint64_t> trial{};
    std::optional<std::uint64_t> ahead{};  // begins there when that has ended
    TimePoint heard_at{};
    bool is_told = false;                     // to stop, because the time is over
    std::optional<std::uint64_t> again_as{};  // its trial begins again from what that one has saved
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
  Result<void> take(TrialSlots::Message message);
  Result<void> take(std::size_t slot, const Error& lost);
  void take(std::size_t slot, detail::TrialEvent& event);
  void take_report(std::size_t slot, const detail::TrialReports& report);
  void take_end(std::size_t slot, const detail::TrialEnds& end);
  void fail(std::size_t slot, const std::string& why, bool may_retry);
  void free(std::size_t slot);
  void give_up(std::size_t slot);
  void trial_is_over(std::uint64_t trial);
  void forget(std::uint64_t trial);
  void forget_paused();
  void look_at_times();
  Result<void> begin_logs();
  Result<void> write();
  void note(const SweepEvent& event);
  void note_in_log(const SweepEvent& event);
  void say_how_to_go_on() const;
  SweepResults results(bool interrupted);

  TrialSlots& slots_;
  const Times times_;
  const Space space_;
  Sweep sweep_;
  TimePoint began_;
  double before_ = 0;  // seconds, of tuners before this one
  std::vector<Slot> of_slots_;
  std::set<std::size_t> idle_;                         // that can be given a trial
  const bool orders_ahead_;                            // while trials are short: nothing is lost by asking early
  std::size_t short_ones_ = 0;                         // what has come soon, since something has not
  std::vector<std::uint64_t> taken_back_;              // were ordered ahead where a worker has died
  std::vector<std::function<void()>> effects_;         // once all is in the journal
  std::map<std::uint64_t, std::uint64_t> kept_steps_;  // of what the slots keep, by trial
  std::vector<std::uint64_t> best_kept_;               // trials that have ended, the best first
  std::size_t failures_ = 0;                           // of slots that never were ready, since one was
  TimePoint over_at_ = TimePoint::max();               // grace included

  std::filesystem::path folder_;
  Keeps keeps_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<CheckpointFiles> files_;
  std::optional<ReportLog> log_;
  std::optional<TensorBoard> board_;
  std::optional<Progress> progress_;
};

}  // namespace pharos::ml
