#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include <pharos/async/completion.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/base/result.hpp>
#include <pharos/storage/batch.hpp>

namespace pharos::storage {

/// Group commit: one thread that writes whatever has come in since it last wrote, with one sync.
///
/// 1. Batches are committed in the order in which they came in, whole groups of them at a time.
/// 2. A batch is acknowledged after `commit` of its group has succeeded, and not before.
/// 3. After a commit has failed, none is tried again: every later batch fails until the store is opened anew.
///
/// Owned by the store, and gone before what `commit` writes to. Threads: write() on any executor.
/// End: the destructor commits what has come in. Bounds: see the constructor; a group holds kGroupBytesMax.
class Committer {
 public:
  /// Writes these batches, in this order, all or none, and syncs them. Called on the committer's thread.
  using Commit = async::UniqueFunction<Result<void>(std::span<const Batch* const>)>;

  /// More than this in one write only makes the first of the group wait.
  static constexpr ByteCount kGroupBytesMax{4u << 20};

  /// `place` is what messages call it: the folder.
  Committer(std::string place, Commit commit, std::size_t batches_max, ByteCount bytes_max);
  Committer(Committer&&) = delete;
  ~Committer();

  async::Async<Result<void>> write(Batch batch, Deadline deadline) { return write(this, std::move(batch), deadline); }

 private:
  struct Pending {
    explicit Pending(Batch changes) : batch{std::move(changes)} {}
    Batch batch;
    // By the thread, which then commits it, or by its writer, who then has given up: whoever is first.
    std::atomic<bool> taken{false};
    async::Completion<void> committed;
  };
  using Group = std::deque<std::shared_ptr<Pending>>;

  static async::Async<Result<void>> write(Committer* self, Batch batch, Deadline deadline);

  Result<void> enqueue(std::shared_ptr<Pending> pending);
  void run();
  Group take_group();
  void commit(const Group& group);
  void fail_from_now_on(const Error& cause);
  Error refused() const;

  const std::string place_;
  Commit commit_;  // the thread's
  const std::size_t batches_max_;
  const ByteCount bytes_max_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Group queue_;
  ByteCount queued_bytes_;
  bool stopping_ = false;
  std::optional<Error> failure_;  // set once
  std::thread thread_;            // last: it uses all of the above
};

}  // namespace pharos::storage
