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
#include <pharos/ml/train_result.hpp>
#include <pharos/ml/trainer_options.hpp>

namespace pharos::ml {

/// The history of a training: collects its reports for the result, writes them to the folder, and shows the progress on
/// the standard error. Owned by the loop of Trainer::run(); one thread. Without a folder nothing is written. The
/// destructor drops reports that have not been written.
class TrainLog {
 public:
  /// Makes the folder, and opens the files in it. Fails with kFailedPrecondition if reports.csv is of something else,
  /// and otherwise with errno.
  static Result<TrainLog> make(const TrainerOptions& options, TimePoint began);

  /// Adds a report. The first one after an interruption completes that, and shows it.
  void add(std::uint32_t attempt, const TrainReport& report);
  /// Says how many steps there will be.
  void expect(std::uint64_t steps) { expected_ = steps; }
  /// The training resumes after `step`: reports of later steps are dropped, because these steps are done again.
  void resumed(std::uint64_t step);
  /// The number of the last step that was reported.
  std::uint64_t steps() const { return result_.steps; }
  /// Adds an interruption. This class fills in `step` and `took`.
  void interrupted(TrainResult::Interruption interruption);
  /// Writes new reports to the files, and shows the progress if it is time. After an error the next call tries again.
  Result<void> write(TimePoint now);
  /// When look_for() looks.
  enum class When : std::uint8_t { kFirstReport, kEpochIsOver, kTrainingIsOver };
  /// Logs a warning and returns true if there were reports, but none had a metric of that name, which an option or a
  /// callback has asked for. After the first report it is missed only if it seems to be misspelt, because other metrics
  /// may come later. Before the training is over, metrics of validations are missed only if there was one.
  bool look_for(const std::string& metric, When when) const;
  /// Moves the result out. The log is then of no more use.
  TrainResult take(TrainResult::End end, TimePoint now);

 private:
  /// Counts the reports that have metrics of the same names.
  struct Kind {
    std::uint64_t every = 1;  ///< one of so many reports is kept
    std::uint64_t seen = 0;
    std::size_t kept = 0;
  };

  TrainLog(const TrainerOptions& options, TimePoint began);
  void show(TimePoint now);
  std::string status(double seconds) const;
  void draw(std::string text);
  void recovered(TrainResult::Interruption& interruption, const TrainReport& report);
  void add_best(const TrainReport& report);
  void thin();

  std::string name_;
  bool shows_;
  TimePoint began_;
  double began_by_calendar_;
  TrainResult result_;
  std::map<std::string, Kind> kinds_;  // by names of metrics, so that frequent reports do not push out rare ones
  std::vector<TrainReport> bests_;     // each better than those before it
  std::uint32_t attempts_before_ = 0;  // number of attempts whose reports the folder had before
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
  std::size_t recovered_ = 0;  // number of interruptions after which there was a report
};

}  // namespace pharos::ml
