#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/ml/display.hpp>
#include <pharos/ml/report_log.hpp>
#include <pharos/ml/tensorboard_file.hpp>
#include <pharos/ml/trainer.hpp>

namespace pharos::ml {

/// What a training has said so far: for its result, in its folder, and on the standard error. One thread.
class TrainLog {
 public:
  /// Makes what is to be in the folder.
  static Result<TrainLog> make(const TrainerOptions& options, TimePoint began);

  void add(std::uint32_t attempt, const TrainReport& report);
  /// There will be so many steps.
  void expect(std::uint64_t steps) { expected_ = steps; }
  /// It goes on from there: later ones are done again.
  void resumed(std::uint64_t step);
  /// That have been reported, of which the last counts.
  std::uint64_t steps() const { return result_.steps; }
  /// `step` and `took` of it are filled in here.
  void restarted(TrainResult::Restart restart);
  /// What has come since is in the folder, and shown if it is time. What could not be written is tried again.
  Result<void> write(TimePoint now);
  /// None had a metric of that name, which somebody has asked for: that is said.
  void look_for(const std::string& metric) const;
  TrainResult take(TrainResult::End end, TimePoint now);

 private:
  /// Of reports that have metrics of the same names.
  struct Kind {
    std::uint64_t every = 1;  ///< of so many one is kept
    std::uint64_t seen = 0;
    std::size_t kept = 0;
  };

  TrainLog(const TrainerOptions& options, TimePoint began);
  void show(TimePoint now);
  std::string status(double seconds) const;
  void draw(std::string text);
  void recovered(TrainResult::Restart& restart, const TrainReport& report);
  void add_best(const TrainReport& report);
  void thin();

  std::string name_;
  bool shows_;
  TimePoint began_;
  double began_by_calendar_;
  TrainResult result_;
  std::map<std::string, Kind> kinds_;  // by names; what comes seldom is not lost among what comes often
  std::vector<TrainReport> bests_;     // each better than those before it
  std::uint32_t attempts_before_ = 0;  // of the folder's reports
  std::uint64_t expected_ = 0;
  std::uint64_t steps_ = 0;
  double rate_from_seconds_ = 0;
  std::uint64_t rate_from_steps_ = 0;
  double rate_ = 0;
  std::optional<TrainReport> newest_;
  std::optional<ReportLog> lines_;
  std::optional<TensorBoardFile> board_;
  Display display_;
  std::string drawn_;
  std::size_t recovered_ = 0;  // restarts that a report has followed
};

}  // namespace pharos::ml
