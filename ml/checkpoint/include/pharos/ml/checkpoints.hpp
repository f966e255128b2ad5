#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/runtime.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/readers.hpp>
#include <pharos/ml/state.hpp>

namespace pharos::ml {

/// What a checkpoint says of itself.
struct Moment {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::vector<std::pair<std::string, double>> metrics{};
};

struct CheckpointOptions {
  /// One training saves in it; all ranks see the same one. Other processes may load from it meanwhile.
  std::filesystem::path folder{};
  /// So many of the newest stay.
  std::size_t keep_last = 2;
  /// And so many of the best by that metric; of equals the earliest.
  std::size_t keep_best = 0;
  std::string metric = "loss";
  bool is_better_lower = true;
  /// Where copies lie while they are written: its object store. None: in memory of this process.
  Runtime* runtime = nullptr;
  /// This process has the place of others that may still save there: what they write from now on is given up, with an
  /// error there, and load() removes the old checkpoints that they had not come to remove. Not for who only loads.
  bool takes_over = false;
  /// A rank's part that is not written by then is not waited for.
  Duration timeout = std::chrono::minutes{10};
};

/// Saves what all ranks have of a training, and loads it again, on as many ranks as there are then. save() copies; a
/// thread writes the copy to disk, each rank's part as a file of safetensors. Rank 0's writes a manifest when all parts
/// are there, which makes them a checkpoint: what is interrupted, by whatever, is none. Every mebibyte has a checksum.
/// All ranks make this, and call the same in the same order; one thread. Owns its thread, and joins it.
class PHAROS_API Checkpoints {
 public:
  /// Rank 0 makes the folder. Throws what has kept it, and FailedPrecondition when a rank does not see what rank 0
  /// writes there.
  Checkpoints(const Communicator& ranks, const CheckpointOptions& options);
  Checkpoints(Checkpoints&&) = delete;
  /// What has been saved is written first. For other ranks' parts rank 0 waits no longer than 10 seconds then: finish()
  /// is what waits for all.
  ~Checkpoints();

  /// Comes back when the state may change again. Where two are not on disk yet, all ranks wait for one, as long as the
  /// disk takes. What goes wrong with it does not stop a training: it is logged, and last_error() has it. A training
  /// that has gone back, and saves an earlier step than there are checkpoints of, goes on from that: those of later
  /// steps are called .aside, and stay.
  void save(const State& state, const Moment& moment);
  /// Waits until all that was saved is on disk, on all ranks. Throws what has gone wrong with the last one: Exhausted
  /// when there was no room, or memory, and for other disks that do not write FailedPrecondition.
  void finish();
  /// Of this rank's part, or, at rank 0, of a whole one.
  std::optional<Error> last_error() const;

  /// From the newest checkpoint that all ranks can read; which others are damaged, and how, is logged, and those do not
  /// count any more: they are called .aside, and stay. Nothing: there has never been one. Throws kCorrupt when there
  /// were some, and none can be read: a training does not begin anew because of that. Throws InvalidArgument for a
  /// checkpoint of something else. What else keeps it from reading one is no damage: it is thrown, and nothing changes.
  std::optional<Moment> load(const State& state);

  /// When another process has taken the place of a rank that has died: with these ranks, as many as before. What lacks
  /// the dead one's part is given up. A rank that is new makes this instead.
  void go_on_with(const Communicator& ranks);

  /// How long the last save() has kept its caller, and how many bytes this rank has copied in it.
  Duration last_stall() const;
  std::size_t last_bytes() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

/// A checkpoint on disk, for whoever looks at it.
struct SavedCheckpoint {
  std::filesystem::path path;
  Moment moment{};
  std::uint32_t ranks = 0;
  std::uint64_t bytes = 0;
};
/// Those of a folder that are complete, the newest first. Their parts are not looked at. One whose manifest is damaged,
/// or of a newer format, is left out; throws whatever else keeps it from reading one.
PHAROS_API std::vector<SavedCheckpoint> checkpoints_in(const std::filesystem::path& folder);
/// Reads all of it. Throws kCorrupt with what is damaged.
PHAROS_API void verify_checkpoint(const std::filesystem::path& checkpoint);
/// Whole tensors whose names begin so, without that; of any number of ranks, brought together.
PHAROS_API std::vector<NamedArray> tensors_of_checkpoint(const std::filesystem::path& checkpoint,
                                                         const std::string& prefix = "model.");

}  // namespace pharos::ml
