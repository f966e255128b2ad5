#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/space.hpp>
#include <pharos/ml/trial.hpp>
#include <pharos/wire/bytes.hpp>

namespace pharos::ml {

enum class Goal : std::uint8_t { kMinimise, kMaximise };

/// What became of a trial.
struct TrialResult {
  enum class State : std::uint8_t {
    kWaiting,  ///< it is to be begun again
    kRunning,
    kPaused,    ///< others were better, and the sweep ended without it
    kComplete,  ///< its objective came back, or it did all its steps
    kStopped,   ///< early
    kFailed,
  };

  std::uint64_t number = 0;
  State state = State::kRunning;
  Params params{};
  Metrics metrics{};              ///< the last of each
  std::optional<double> value{};  ///< of the sweep's metric
  std::uint64_t step = 0;         ///< the last that it has reported
  std::uint32_t attempts = 1;
  double began_s = 0;  ///< since the sweep began: when it was given to a worker
  double ended_s = 0;
  std::string error{};  ///< the last
};
PHAROS_API std::string_view to_string(TrialResult::State state);

/// A sweep when it has ended, or been interrupted. A value; any thread may read it.
class PHAROS_API SweepResults {
 public:
  struct Contents {
    std::string metric = "value";
    Goal goal = Goal::kMinimise;
    std::vector<TrialResult> trials{};
    std::filesystem::path folder{};
    std::map<std::uint64_t, Bytes> checkpoints{};  ///< of the best, by their trials
    double seconds = 0;
    bool interrupted = false;
    std::uint64_t planned = 0;  ///< trials; 0: nobody has said
    std::vector<std::string> command{};
    std::filesystem::path working_folder{};
  };
  explicit SweepResults(Contents contents) : contents_{std::move(contents)} {}
  /// Of the folder of a sweep, also while it runs there: as far as it has come. Throws NotFound where there is none,
  /// Corrupt and Unsupported for a journal that cannot be read.
  static SweepResults load(const std::filesystem::path& folder);

  /// By their numbers.
  const std::vector<TrialResult>& trials() const { return contents_.trials; }
  const std::string& metric() const { return contents_.metric; }
  Goal goal() const { return contents_.goal; }
  double seconds() const { return contents_.seconds; }
  /// It was ended by Ctrl-C, and can be gone on with.
  bool interrupted() const { return contents_.interrupted; }
  /// How many trials it is to have; 0: as many as there is time for.
  std::uint64_t planned() const { return contents_.planned; }
  /// Of one that was loaded: what began it, and where.
  const std::vector<std::string>& command() const { return contents_.command; }
  const std::filesystem::path& working_folder() const { return contents_.working_folder; }
  /// Where its journal and its checkpoints are; empty: nowhere.
  const std::filesystem::path& folder() const { return contents_.folder; }
  std::size_t count(TrialResult::State state) const;

  /// Of those that are complete; of the others, where none is. Throws NotFound with the last error where no trial has
  /// a value.
  const TrialResult& best() const;
  /// What a trial has saved last, read from the folder. Throws NotFound where that was not kept.
  template <class T>
  T checkpoint(const TrialResult& trial) const {
    auto value = from_bytes<T>(checkpoint_bytes(trial.number).span());
    if (!value) throw_error(std::move(value).error().with("reading the checkpoint of a trial"));
    return *std::move(value);
  }

  /// How many trials there are of each kind, and the best value.
  std::string summary() const;
  /// The best trials, at most so many, for people to read.
  std::string table(std::size_t rows = 10) const;
  /// A line for each trial: number, state, value, step, seconds, parameters, metrics, error.
  std::string to_csv() const;
  /// An object for each trial and line.
  std::string to_json_lines() const;
  /// Values of the trials, and the best so far, as a picture.
  std::string to_svg() const;
  /// The same with characters, so many columns wide.
  std::string to_text_picture(std::size_t columns = 80, std::size_t rows = 12) const;

 private:
  Bytes checkpoint_bytes(std::uint64_t trial) const;

  Contents contents_;
};

}  // namespace pharos::ml
