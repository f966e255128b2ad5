#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/result.hpp>
#include <pharos/storage/kv_store.hpp>

namespace pharos::storage {

struct RocksDbOptions {
  /// Writes that wait for the disk, beyond those that are being synced; then kOverloaded.
  std::size_t queued_writes_max = 8192;
  /// Of their keys and values together. A batch that is larger by itself is refused as kInvalidArgument.
  ByteCount queued_bytes_max{64ull << 20};
  std::size_t read_threads = 2;
  /// Reads that wait for a thread; then kOverloaded.
  std::size_t queued_reads_max = 8192;
};

/// A store in a folder, which is made if it is not there.
///
/// Blocks while it opens and checks all that is there: call it before the event loop runs, or on a pool.
/// Writes are synced by one thread, as many at once as have come in meanwhile; they are durable in the order in which
/// they came in, so what is found after a crash is a prefix with every acknowledged write in it.
/// A write that fails at the disk fails all that come after it with kFailedPrecondition, until the store is opened
/// again: after a failed sync nobody knows what the disk holds. Reads go on.
/// The destructor writes what has come in and closes; the files of a store that is open belong to it alone.
///
/// Opening fails with kAlreadyExists (open already, here or in another process), kPermissionDenied, kExhausted, or
/// kCorrupt, which names the file: bytes that were synced and have changed since are refused, never skipped. Only the
/// incomplete record that a crash leaves at the end of a log, which nobody was told of, is dropped.
Result<std::unique_ptr<KvStore>> open_rocksdb(std::filesystem::path folder, RocksDbOptions options = {});

}  // namespace pharos::storage
