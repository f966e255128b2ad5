#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/base/result.hpp>
#include <pharos/storage/batch.hpp>
#include <pharos/storage/key_value.hpp>

namespace pharos::storage {

/// A store that maps byte strings to byte strings, ordered by the keys' bytes (unsigned).
///
/// The owner keeps the store alive until all calls to it have ended. Threads: coroutines on any executor may call it.
/// No call blocks the executor, and the coroutine continues on its own executor. A read that starts after a write() has
/// succeeded sees the write; no read sees a write before the write is durable.
/// Failure: kOverloaded (too many calls at once), kDeadlineExceeded, kCancelled, and the errors of the backend. If a
/// write fails, error().outcome() tells whether the write may have happened: after kUnknown it may also happen later.
/// Bounds: each call keeps its arguments in memory; the backend limits the number of calls.
class KvStore {
 public:
  virtual ~KvStore() = default;

  /// Returns the key's value, or nullopt if the key does not exist.
  virtual async::Async<Result<std::optional<std::string>>> get(std::string key, Deadline deadline) = 0;

  /// Returns at most `limit` pairs whose keys begin with `prefix`, in the order of their keys. The pairs are a
  /// consistent snapshot.
  async::Async<Result<std::vector<KeyValue>>> scan(std::string prefix, std::size_t limit, Deadline deadline) {
    return scan_after(std::move(prefix), std::nullopt, limit, deadline);
  }
  /// Like scan(), but only with keys after the key `after`, which is the last key of the previous page.
  virtual async::Async<Result<std::vector<KeyValue>>> scan_after(std::string prefix, std::optional<std::string> after,
                                                                 std::size_t limit, Deadline deadline) = 0;

  /// Applies a batch. Succeeds when the whole batch is durable. Batches from the coroutines of one executor are applied
  /// in the order in which the coroutines awaited write().
  virtual async::Async<Result<void>> write(Batch batch, Deadline deadline) = 0;

  /// Returns the free space on the store's disk, from the file system, without waiting. Returns the largest number if
  /// the store has no disk, and 0 if the file system does not answer.
  virtual ByteCount free_space() const { return ByteCount{std::numeric_limits<std::uint64_t>::max()}; }

 protected:
  KvStore() = default;
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;
};

}  // namespace pharos::storage
