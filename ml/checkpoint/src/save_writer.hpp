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
#include <pharos/ml/checkpoints.hpp>

#include "folder_owner.hpp"
#include "manifest.hpp"
#include "save.hpp"

namespace pharos::ml {

/// Writes what its rank has copied, one save after the other, in a thread that gives way to those that compute. At rank
/// 0 it makes a checkpoint of what all ranks have written, and removes old ones.
class SaveWriter {
 public:
  SaveWriter(std::uint32_t rank, std::uint32_t ranks, const CheckpointOptions& options);
  /// Ends when what it has is written; parts of others it waits for a few seconds only.
  ~SaveWriter();
  SaveWriter(const SaveWriter&) = delete;
  SaveWriter& operator=(const SaveWriter&) = delete;

  /// Memory for so many bytes: that of an earlier save, which is warm, if it fits.
  std::unique_ptr<StateCopy> copy_of(std::size_t bytes);
  /// While there is room.
  void write(std::unique_ptr<Save> save);

  bool has_room() const;
  /// For so long at most; whether it is so then.
  bool wait_for_room(Duration time) const;
  bool wait_for_end(Duration time) const;

  /// Of the save that ended last.
  std::optional<Error> last_error() const;
  /// The last save that this rank could not write, and could not say so in its folder. 0: none.
  std::uint64_t unsaid() const;
  /// The same of each rank, as heard when all met.
  void hear_unsaid(std::vector<std::uint64_t> of_ranks);

  /// How many saves this rank has begun.
  std::uint64_t begun() const;
  /// All ranks number the next save by this.
  void go_on_from(std::uint64_t begun);
  /// Other ranks' parts of what has begun are not waited for any more.
  void give_up_others();

  /// At rank 0, when there is a folder: it is this process from now on that saves there.
  Result<void> enter(const std::string& id);
  /// This process saves a checkpoint of that name: it is nothing that an earlier one has left.
  void expect(const std::string& name);
  /// Checkpoints that this process has found.
  void knows(const std::vector<std::string>& names);
  /// At rank 0: `newest` is there, and older checkpoints that are not to stay are removed.
  Result<void> tidy(const std::string& newest) const;

 private:
  void run();
  Result<void> write_out(Save& save);
  Result<void> write_own(Save& save, const std::filesystem::path& folder) const;
  bool say_failed(const std::filesystem::path& folder, const Error& why) const;
  Result<void> may_write(const Save& save) const;
  bool is_given_up(const Save& save) const;
  bool fits_one() const { return saves_.size() + (busy_ ? 1 : 0) < kUnderWayMax; }

  // At rank 0.
  Result<void> complete(const Save& save, const std::filesystem::path& folder, const Result<void>& own);
  Result<void> commit(const Save& save, const std::filesystem::path& folder, const Result<void>& own);
  Result<Manifest> gather(const Save& save, const std::filesystem::path& folder, const Result<void>& own);
  Error never_came(std::uint32_t rank) const;
  Result<std::vector<std::string>> later_than(const std::string& name);
  Result<void> remove_old(const std::string& newest) const;
  void leave(Save& save);
  Result<void> remove_left();

  static constexpr std::size_t kUnderWayMax = 2;
  static constexpr Duration kEndTime = std::chrono::seconds{10};
  static constexpr std::size_t kLeftMax = 8;

  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const CheckpointOptions options_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::unique_ptr<Save>> saves_;
  bool busy_ = false;
  bool ends_ = false;
  TimePoint end_ = TimePoint::max();  // of waiting for other ranks, once this ends
  std::vector<std::unique_ptr<StateCopy>> spare_;
  std::optional<Error> last_error_;
  std::uint64_t begun_ = 0;
  std::uint64_t given_up_ = 0;  // up to that one others are not waited for
  std::uint64_t unsaid_ = 0;
  std::vector<std::uint64_t> unsaid_of_;
  std::set<std::string> expected_;  // until what earlier processes have left is known
  bool has_looked_for_left_ = false;
  std::set<std::string> known_;  // checkpoints that this process has found or made

  std::optional<FolderOwner> owner_;  // at rank 0, before anything is saved
  // Of the thread.
  std::vector<std::string> left_;  // to be removed before the next save
  std::thread thread_;             // the last: it uses the others
};

}  // namespace pharos::ml
