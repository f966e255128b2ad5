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

/// Group commit: one thread writes all batches that have come in since its last write, with one sync.
///
/// 1. Batches are committed in the order in which they came in, in groups.
/// 2. A batch is acknowledged only after the commit of its group has succeeded.
/// 3. After a commit has failed, nothing is committed any more: every later batch fails with kFailedPrecondition until
/// the store is opened again.
///
/// Owned by the store, and destroyed before the database to which `commit` writes. Threads: coroutines on any executor
/// may call write(). Failure: the batches of a commit that fails get its error. error().outcome() of write() tells
/// whether the batch may have been written. A batch that still waits at its deadline, or when its coroutine is
/// cancelled, is not written; an empty batch succeeds at once. End: the destructor waits until the batches that have
/// come in are committed; a write() that begins later aborts the process. Bounds: `batches_max` batches with
/// `bytes_max` bytes wait. The next batch fails with kOverloaded, and a batch above `bytes_max` with kInvalidArgument.
/// A group has at most kGroupBytesMax, or one larger batch.
class Committer {
 public:
  /// Writes these batches in this order, all or none of them, and syncs. Called on the committer's thread. Must not
  /// throw.
  using Commit = async::UniqueFunction<Result<void>(std::span<const Batch* const>)>;

  /// A larger group would only delay the first batches in it.
  static constexpr ByteCount kGroupBytesMax{4u << 20};

  /// `place` is the name of the store in error messages: its folder.
  Committer(std::string place, Commit commit, std::size_t batches_max, ByteCount bytes_max);
  Committer(Committer&&) = delete;
  ~Committer();

  async::Async<Result<void>> write(Batch batch, Deadline deadline);

 private:
  struct Pending {
    explicit Pending(Batch changes) : batch{std::move(changes)} {}
    Batch batch;
    // Set by the first of two sides: the thread, which then commits the batch, or the writer, which then gives up.
    std::atomic<bool> taken{false};
    async::Completion<void> committed;
  };
  using Group = std::deque<std::shared_ptr<Pending>>;

  Result<void> enqueue(std::shared_ptr<Pending> pending);
  void run();
  Group take_group();
  void commit(const Group& group);
  void fail_from_now_on(const Error& cause);
  Error refused() const;

  const std::string place_;
  Commit commit_;  // called only by the committer's thread
  const std::size_t batches_max_;
  const ByteCount bytes_max_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Group queue_;
  ByteCount queued_bytes_;
  bool stopping_ = false;
  std::optional<Error> failure_;  // set once
  std::thread thread_;            // last member, because the thread uses all members above
};

}  // namespace pharos::storage
