#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/checkpoint_options.hpp>

#include "folder_owner.hpp"
#include "leftovers.hpp"
#include "manifest.hpp"
#include "save.hpp"

namespace pharos::ml {

/// Writes the saves of its rank, one after the other, in a thread of low priority. At rank 0 the thread also makes a
/// checkpoint of the parts of all ranks, and removes old checkpoints. Owned by Checkpoints. Any thread may call the
/// functions; only enter() must come before the first save. Errors of the thread are logged, and last_error() returns
/// them. The runtime of the options must outlive the object.
class SaveWriter {
 public:
  SaveWriter(std::uint32_t rank, std::uint32_t ranks, const CheckpointOptions& options);
  /// Waits until all saves are written; at rank 0 it waits at most kEndTime for the parts of other ranks. A save that
  /// lacks a part then fails.
  ~SaveWriter();
  SaveWriter(const SaveWriter&) = delete;
  SaveWriter& operator=(const SaveWriter&) = delete;

  /// Returns memory for a copy of this many bytes: the memory of an earlier save if it has the same size, because that
  /// is warm. Throws what StateCopy() throws.
  std::unique_ptr<StateCopy> copy_of(std::size_t bytes);
  /// Returns the number of the next save. All ranks call it for each save, whether they can copy their state or not.
  std::uint64_t begin();
  /// Queues a save that has its number. The caller must have checked that there is room.
  void write(std::unique_ptr<Save> save);
  /// This rank cannot write the save, because it could not copy its state. The save then fails at rank 0, once rank 0
  /// has heard of it by hear_unsaid(). last_error() of this rank stays as it was.
  void give_up_own(const Save& save);

  /// Returns whether another save may be queued.
  bool has_room() const;
  /// Waits at most this long for room, and returns whether there is room.
  bool wait_for_room(Duration time) const;
  /// Waits at most this long until all saves have ended, and returns whether they have.
  bool wait_for_end(Duration time) const;

  /// The error of the save that ended last; nullopt if it succeeded. At rank 0 it is the error of the whole checkpoint,
  /// and at other ranks that of their own part; there a save that was given up is no error.
  std::optional<Error> last_error() const;
  /// The number of the last save that this rank could not write and could not report in its folder; 0 if there is none.
  /// At rank 0: of the last save that failed.
  std::uint64_t unsaid() const;
  /// Takes unsaid() of each rank, one number for each, which the ranks exchange when they meet.
  void hear_unsaid(std::vector<std::uint64_t> of_ranks);

  /// The number of saves that this rank has begun.
  std::uint64_t begun() const;
  /// Sets that number, so that all ranks give the next save the same number, and forgets what hear_unsaid() has taken.
  void go_on_from(std::uint64_t begun);
  /// Gives up the saves that have begun: saves in the queue are not written, and rank 0 waits for no part that is not
  /// there yet. At rank 0 such a save fails with kFailedPrecondition.
  void give_up_others();

  /// At rank 0, when the folder exists: makes this process the owner if it takes over, else finds the present owner. If
  /// the owner's file cannot be written, that is only logged. Returns an error if the file cannot be read.
  Result<void> enter(const std::string& id);
  /// Says that this process is about to save a checkpoint of that name, whose folder is therefore not a leftover.
  void expect(const std::string& name);
  /// Adds checkpoints that this process has found in the folder.
  void knows(const std::vector<std::string>& names);
  /// At rank 0: removes the checkpoints older than `newest` that are not to be kept, and records `newest`. Returns
  /// kFailedPrecondition, and removes no checkpoint, if another process has taken over the folder. Ends with the first
  /// error.
  Result<void> tidy(const std::string& newest) const;

 private:
  void run();
  Result<void> write_out(Save& save);
  Result<void> write_own(Save& save, const std::filesystem::path& folder) const;
  bool say_failed(const std::filesystem::path& folder, const Error& why) const;
  Result<void> may_write(const Save& save) const;
  bool is_given_up(const Save& save) const;
  bool fits_one() const { return saves_.size() + (busy_ ? 1 : 0) < kUnderWayMax; }

  // Functions of rank 0.
  Result<void> complete(const Save& save, const std::filesystem::path& folder, const Result<void>& own);
  Result<void> commit(const Save& save, const std::filesystem::path& folder, const Result<void>& own);
  Result<Manifest> gather(const Save& save, const std::filesystem::path& folder, const Result<void>& own);
  Error never_came(std::uint32_t rank) const;
  Result<std::vector<std::string>> later_than(const std::string& name);
  Result<void> remove_old(const std::string& newest) const;

  static constexpr std::size_t kUnderWayMax = 2;
  static constexpr Duration kEndTime = std::chrono::seconds{10};

  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const CheckpointOptions options_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::unique_ptr<Save>> saves_;
  bool busy_ = false;
  bool ends_ = false;
  TimePoint end_ = TimePoint::max();  // when waiting for other ranks ends, if the destructor runs
  std::vector<std::unique_ptr<StateCopy>> spare_;
  std::optional<Error> last_error_;
  std::uint64_t begun_ = 0;
  std::uint64_t given_up_ = 0;  // for saves up to this number other ranks are not waited for
  std::uint64_t unsaid_ = 0;
  std::vector<std::uint64_t> unsaid_of_;
  std::set<std::string> known_;  // checkpoints that this process has found or made

  std::optional<FolderOwner> owner_;  // at rank 0, set before the first save
  Leftovers leftovers_;               // at rank 0
  std::thread thread_;                // the last member, because the thread uses the others
};

}  // namespace pharos::ml
