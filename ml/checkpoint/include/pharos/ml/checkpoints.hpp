#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pharos/actors/runtime.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/checkpoint_options.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/readers.hpp>
#include <pharos/ml/state.hpp>

namespace pharos::ml {

/// Saves the state of a training on all ranks, and loads it again on any number of ranks. save() copies the state, and
/// a thread writes the copy to disk, the part of each rank as one safetensors file. When all parts are written, rank
/// 0's thread writes a manifest, which makes them a checkpoint. A save that is interrupted in any way is not a
/// checkpoint. Each mebibyte has a checksum. All ranks must create a Checkpoints and call the same functions in the
/// same order, each rank from one thread. The object owns its thread and joins it. At most two saves are under way.
/// Errors are exceptions, except those of the thread; see save(). All functions that work with other ranks also throw
/// what operations of a Communicator throw, such as ActorDied; go_on_with() may then follow.
class PHAROS_API Checkpoints {
 public:
  /// Rank 0 creates the folder. Throws on all ranks: the error if that fails, InvalidArgument if the options name no
  /// folder, and FailedPrecondition if a rank does not see a file that rank 0 has written in the folder.
  Checkpoints(const Communicator& ranks, const CheckpointOptions& options);
  Checkpoints(Checkpoints&&) = delete;
  /// Waits until all saves are written, but rank 0 waits at most 10 seconds for the parts of other ranks. A save that
  /// lacks a part then fails, which is only logged. To wait for all, call finish().
  ~Checkpoints();

  /// Returns when the caller may change the state again. If two earlier saves are not on disk yet, all ranks wait until
  /// one is, without a time limit. An error of the thread does not stop the training: it is logged, and last_error()
  /// returns it. If the training has gone back to an earlier step than the newest checkpoint, the new checkpoint counts
  /// and those of later steps do not: their folders are renamed to end in `.aside`, and they are not removed. Throws
  /// InvalidArgument on all ranks if they save different steps or have different shared slices. What a callback or a
  /// codec of the state throws, or std::bad_alloc, is thrown on this rank alone, and that save gives no checkpoint.
  /// `state` is not used after the call.
  void save(const State& state, const Moment& moment);
  /// Waits until all saves are on disk, on all ranks. Throws the error of the last save on all ranks: Exhausted if disk
  /// space or memory was short, and FailedPrecondition for most other errors of a disk. If only the last sync of a save
  /// has failed, the checkpoint is there and counts although this throws.
  void finish();
  /// The error of the last save that has ended: of this rank's part, or at rank 0 of the whole checkpoint. nullopt if
  /// that save succeeded.
  std::optional<Error> last_error() const;

  /// Loads the newest checkpoint that all ranks can read. Newer checkpoints that are damaged are logged, are renamed to
  /// end in `.aside`, and do not count any more. Returns nullopt if there has never been a checkpoint. Throws an
  /// Exception with kCorrupt if there are or were checkpoints but none can be read, so that a training does not
  /// silently begin anew, and FailedPrecondition if all of them were removed meanwhile. Throws InvalidArgument if the
  /// checkpoint does not match the state. Any other error while reading is thrown, and no checkpoint is renamed. After
  /// an exception slices and values of the state may be partly overwritten. While this rank reads, a second thread of
  /// this object uses the communicator.
  std::optional<Moment> load(const State& state);

  /// Loads a certain checkpoint, in any folder that all ranks see: SavedCheckpoint::path. Throws on all ranks what is
  /// wrong with it (kCorrupt, NotFound, InvalidArgument if it does not match the state). Otherwise like load().
  Moment load_from(const std::filesystem::path& checkpoint, const State& state);

  /// Continues with new connections after another process has replaced a rank that died. `ranks` must have the same
  /// size as before. Saves of which a part is not written yet are given up. The new rank creates a Checkpoints instead
  /// of calling this. Throws as the constructor.
  void go_on_with(const Communicator& ranks);

  /// How long the last save() took, and how many bytes this rank copied in it; 0 before the first.
  Duration last_stall() const;
  std::size_t last_bytes() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

/// A checkpoint on disk, as listings show it.
struct SavedCheckpoint {
  std::filesystem::path path;
  Moment moment{};
  std::uint32_t ranks = 0;
  std::uint64_t bytes = 0;
};
/// Returns the complete checkpoints of a folder, the newest first; none if there is no such folder. Their parts are not
/// checked. A checkpoint whose manifest is damaged or has a newer format is left out. Throws any other error while
/// reading. Programs call this and the functions below, on any thread.
PHAROS_API std::vector<SavedCheckpoint> checkpoints_in(const std::filesystem::path& folder);
/// Reads the whole checkpoint and compares all checksums. Throws an Exception: with kCorrupt, which names what is
/// damaged or missing, with kUnsupported for a newer format, or with any other error while reading.
PHAROS_API void verify_checkpoint(const std::filesystem::path& checkpoint);
/// Returns the whole tensors whose names begin with `prefix`, under their names without the prefix. The parts of all
/// ranks are put together. Checks only what it reads, and throws as verify_checkpoint().
PHAROS_API std::vector<NamedArray> tensors_of_checkpoint(const std::filesystem::path& checkpoint,
                                                         const std::string& prefix = "model.");

}  // namespace pharos::ml
