#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/metrics.hpp>

namespace pharos::ml {

struct TrainReport {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  double seconds = 0;  ///< since the training was begun
  Metrics metrics{};
};

/// What has come of a training.
struct PHAROS_API TrainResult {
  enum class End : std::uint8_t {
    kReturned,     ///< the function has come back by itself
    kStopped,      ///< a callback, or TrainerOptions::time, has ended it
    kInterrupted,  ///< Ctrl-C
  };
  /// A rank has died, or has not come in time.
  struct Restart {
    double seconds = 0;           ///< since the training was begun
    std::string why{};            ///< names the rank
    bool is_replacement = false;  ///< another process took the rank's place; else all ranks began again
    std::uint64_t step = 0;       ///< the last step that was reported before
    double took = 0;              ///< seconds until the next report
  };

  End end = End::kReturned;
  std::string metric;  ///< that matters
  bool is_better_lower = true;
  double seconds = 0;
  std::uint64_t steps = 0;
  std::vector<Restart> restarts{};
  /// A rank died, or did not come in time, when the training was to stop: why its last steps may be in no checkpoint.
  std::string why_unsaved{};
  /// In the order of their steps, without those that were done again. Of a longer training at most 10 000: of those
  /// that have the same metrics, evenly; those that have others, as validated steps do, are not thinned for them.
  std::vector<TrainReport> reports{};

  /// Of all reports, also of those that are not kept. Null: none has the metric.
  std::optional<TrainReport> best{};
  /// Of the last report; null: it has none of that name.
  std::optional<double> last(std::string_view name) const;
  /// Over the reports that have it.
  std::optional<double> mean(std::string_view name) const;
  /// Where its values went, as a picture. Lines mark the steps that restarts interrupted.
  std::string to_svg() const;
  /// For a terminal.
  std::string to_text_picture(std::size_t columns = 80, std::size_t rows = 12) const;
};

}  // namespace pharos::ml
