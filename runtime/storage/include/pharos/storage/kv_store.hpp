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

namespace pharos::storage {

struct KeyValue {
  std::string key;
  std::string value;
  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

/// Byte strings by byte strings, ordered by the keys' bytes (unsigned).
///
/// Owned by the object graph; outlives the calls that were made to it. Threads: call it on any executor; nothing blocks
/// it, and the coroutine goes on there. What a write() changed is seen by every read that starts after it succeeded,
/// and by none before it is durable.
/// Failure: kOverloaded (too many calls at once), kDeadlineExceeded, kCancelled, and what the backend adds. A write
/// that failed says in outcome() whether it may have happened.
/// Bounds: each call holds what it was given; how many, says the backend.
class KvStore {
 public:
  virtual ~KvStore() = default;

  /// The key's value, or none.
  virtual async::Async<Result<std::optional<std::string>>> get(std::string key, Deadline deadline) = 0;

  /// At most `limit` pairs whose keys begin with `prefix`, in the order of their keys, all of one moment.
  async::Async<Result<std::vector<KeyValue>>> scan(std::string prefix, std::size_t limit, Deadline deadline) {
    return scan_after(std::move(prefix), std::nullopt, limit, deadline);
  }
  /// The same, but only keys after that one: the last of the page before.
  virtual async::Async<Result<std::vector<KeyValue>>> scan_after(std::string prefix, std::optional<std::string> after,
                                                                 std::size_t limit, Deadline deadline) = 0;

  /// Succeeds once the whole batch is durable. Batches are applied in the order in which write() was awaited by the
  /// coroutines of one executor.
  virtual async::Async<Result<void>> write(Batch batch, Deadline deadline) = 0;

  /// What its disk has left. A look at the file system, without a wait.
  virtual ByteCount free_space() const { return ByteCount{std::numeric_limits<std::uint64_t>::max()}; }

 protected:
  KvStore() = default;
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;
};

}  // namespace pharos::storage
