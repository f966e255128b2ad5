#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/array.hpp>
#include <pharos/ml/metrics.hpp>

namespace pharos::ml {

struct TrainReport {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  double seconds = 0;  ///< seconds since the training began
  Metrics metrics{};
};

/// The result of a training. A plain value, which the caller owns; its functions never fail.
struct PHAROS_API TrainResult {
  /// How the training has ended.
  enum class End : std::uint8_t {
    kReturned,     ///< The training function returned by itself, for instance because a FitCallback stopped it.
    kStopped,      ///< A callback of TrainerOptions, or TrainerOptions::time, stopped the training.
    kInterrupted,  ///< The user pressed Ctrl-C.
  };
  /// An interruption of the training: a rank died, did not come in time, or had to leave a node that is being emptied.
  struct Interruption {
    double seconds = 0;           ///< seconds since the training began
    std::string why{};            ///< the reason, with the number of the rank that died
    bool is_replacement = false;  ///< another process took the rank's place; else all ranks began again
    std::uint64_t step = 0;       ///< the last step that was reported before
    double took = 0;              ///< seconds until the next report; 0 if there was none
  };

  End end = End::kReturned;
  std::string metric;  ///< name of the metric that matters
  bool is_better_lower = true;
  double seconds = 0;
  std::uint64_t steps = 0;  ///< the last step that was reported
  std::vector<Interruption> interruptions{};
  /// If the last steps may be in no checkpoint, the reason: a rank died, or did not come in time, while the training
  /// was being stopped. Empty otherwise.
  std::string why_unsaved{};
  /// Reports in the order of their steps; of a step that was done again only the last one. At most 10 000 are kept.
  /// Reports with the same names of metrics are thinned evenly. Rarer reports that have other metrics, such as those of
  /// validated steps, are not thinned because of more frequent ones.
  std::vector<TrainReport> reports{};

  /// The trained model: its parameters and buffers, by their names in the module. Load them with ml::load_arrays(), or
  /// write them with ml::write_safetensors(). Empty if the training function gave none (fit() gives it, unless
  /// FitOptions::return_model is false), and where why_unsaved is not empty.
  std::vector<NamedArray> model{};

  /// The best report of all, also of those that are not kept. nullopt if no report has a finite value of the metric.
  std::optional<TrainReport> best{};
  /// A metric of the last report; nullopt if that report does not have it.
  std::optional<double> last(std::string_view name) const;
  /// The mean over the kept reports that have this metric; nullopt if none has it.
  std::optional<double> mean(std::string_view name) const;
  /// The curve of the metric that matters, as a picture. Lines mark the interrupted steps.
  std::string to_svg() const;
  /// A page in one file: how the training went, a chart of each metric, and what interrupted it.
  std::string to_html() const;
  /// The same curve as text, for a terminal.
  std::string to_text_picture(std::size_t columns = 80, std::size_t rows = 12) const;
};

}  // namespace pharos::ml
