#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/trial_result.hpp>
#include <pharos/wire/bytes.hpp>
#include <pharos/wire/stored_codec.hpp>

namespace pharos::ml {

/// The results of a sweep that has ended or was interrupted, or of one that still runs (see load()). A value; any
/// thread may read it.
class PHAROS_API SweepResults {
 public:
  struct Contents {
    std::string metric = "value";
    Goal goal = Goal::kMinimise;
    std::vector<TrialResult> trials{};
    std::filesystem::path folder{};
    std::map<std::uint64_t, Bytes> checkpoints{};  ///< last checkpoints of the best trials, by trial
    double seconds = 0;
    bool interrupted = false;
    std::uint64_t planned = 0;  ///< number of trials; 0 if only time limits the sweep
    std::vector<std::string> command{};
    std::filesystem::path working_folder{};
  };
  explicit SweepResults(Contents contents) : contents_{std::move(contents)} {}
  /// Reads the folder of a sweep. If the sweep still runs there, the results are those so far. Throws NotFound if the
  /// folder has no sweep, and an Exception with kCorrupt or kUnsupported if its journal is damaged or of another
  /// version.
  static SweepResults load(const std::filesystem::path& folder);

  /// The trials by number: trial n has index n.
  const std::vector<TrialResult>& trials() const { return contents_.trials; }
  const std::string& metric() const { return contents_.metric; }
  Goal goal() const { return contents_.goal; }
  double seconds() const { return contents_.seconds; }
  /// Returns true if Ctrl-C ended the sweep. If it has a folder, Tuner::restore() continues it.
  bool interrupted() const { return contents_.interrupted; }
  /// Returns the number of trials that the sweep is to have; 0 if only time limits it.
  std::uint64_t planned() const { return contents_.planned; }
  /// The command that began the sweep, and the folder that it was begun in. Both are known only after load(), and empty
  /// otherwise.
  const std::vector<std::string>& command() const { return contents_.command; }
  const std::filesystem::path& working_folder() const { return contents_.working_folder; }
  /// The folder of the journal and the checkpoints; empty if the sweep keeps nothing.
  const std::filesystem::path& folder() const { return contents_.folder; }
  std::size_t count(TrialResult::State state) const;

  /// Returns the best of the complete trials; if no trial is complete, the best of all. Throws NotFound, with the last
  /// error, if no trial has a value. The reference is valid as long as these results.
  const TrialResult& best() const;
  /// Returns what a trial saved last, from memory or else from the folder. Throws NotFound if the checkpoint was not
  /// kept, InvalidArgument if it is of another type, and an Exception with kCorrupt if its file is damaged.
  template <class T>
  T checkpoint(const TrialResult& trial) const {
    auto value = from_bytes<T>(checkpoint_bytes(trial.number).span());
    if (!value) throw_error(std::move(value).error().with("reading the checkpoint of a trial"));
    return *std::move(value);
  }

  /// One line of text: the number of trials in each state, and the best value.
  std::string summary() const;
  /// A table of at most `rows` of the best trials, for people to read.
  std::string table(std::size_t rows = 10) const;
  /// One line for each trial: number, state, value, step, seconds, attempts, parameters, metrics, error.
  std::string to_csv() const;
  /// One line for each trial, each of them a JSON object.
  std::string to_json_lines() const;
  /// A chart of the trials' values, and of the best value so far.
  std::string to_svg() const;
  /// A page in one file: the chart, one chart for each parameter that is a number, and the best trials.
  std::string to_html() const;
  /// The same chart made of characters, `columns` wide.
  std::string to_text_picture(std::size_t columns = 80, std::size_t rows = 12) const;

 private:
  Bytes checkpoint_bytes(std::uint64_t trial) const;

  Contents contents_;
};

}  // namespace pharos::ml
