#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/runtime.hpp>
#include <pharos/base/clock.hpp>

namespace pharos::ml {

/// The position of a training that a checkpoint records.
struct Moment {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::vector<std::pair<std::string, double>> metrics{};
};

struct CheckpointOptions {
  /// The folder of the checkpoints. Only one training may save in it, and all ranks must see the same folder. Other
  /// processes may load from it at the same time.
  std::filesystem::path folder{};
  /// This many of the newest checkpoints are kept.
  std::size_t keep_last = 2;
  /// In addition, this many of the best checkpoints by `metric` are kept. Of equal ones the earliest is the best.
  std::size_t keep_best = 0;
  std::string metric = "loss";
  bool is_better_lower = true;
  /// Copies of the state are kept in the object store of this runtime while they are written. If null, they are in
  /// memory of this process. The runtime must outlive the Checkpoints.
  Runtime* runtime = nullptr;
  /// This process replaces other processes that may still be saving in the folder. Their saves fail from then on, and
  /// load() removes old checkpoints that they did not come to remove. Must be false for a process that only loads.
  bool takes_over = false;
  /// Rank 0 waits no longer than this for a part that another rank writes. Then the save fails.
  Duration timeout = std::chrono::minutes{10};
};

}  // namespace pharos::ml
