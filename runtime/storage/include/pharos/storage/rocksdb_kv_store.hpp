#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/result.hpp>
#include <pharos/storage/kv_store.hpp>

namespace pharos::storage {

/// The bounds of a store. A call beyond a bound fails with kOverloaded. The process aborts if a bound of the reads is
/// 0.
struct RocksDbOptions {
  /// Number of writes that may wait for the disk, not counting the writes that are being synced.
  std::size_t queued_writes_max = 8192;
  /// Size of the keys and values of the waiting writes. A single batch above this limit fails with kInvalidArgument.
  ByteCount queued_bytes_max{64ull << 20};
  std::size_t read_threads = 2;
  /// Number of reads that may wait for a thread.
  std::size_t queued_reads_max = 8192;
};

/// Opens a store in a folder, or makes it if the folder has none. The caller owns the store.
///
/// Blocks while it opens and checks all files: call it before the event loop runs, or on a pool.
/// One thread writes and syncs all batches that have come in since its last sync. Batches become durable in the order
/// in which they came in. After a crash the store therefore has a prefix of the batches, which includes every
/// acknowledged batch. After a write has failed at the disk, all later writes fail with kFailedPrecondition until the
/// store is opened again, because the content of the disk is unknown after a failed sync. Reads continue. The
/// destructor blocks: it writes the batches that have come in, refuses the reads that wait for a thread (kCancelled),
/// lets the running reads end, and closes the store. No other code may touch the files of an open store.
///
/// Opening fails with kAlreadyExists (the store is open already, in this or another process), kPermissionDenied,
/// kExhausted, kInvalidArgument (not a folder), kUnsupported (a store of another version), kUnavailable (the disk
/// fails), or kCorrupt, whose message names the file. Synced bytes that have changed are reported as kCorrupt, never
/// skipped. Only the incomplete record that a crash leaves at the end of a log is dropped; it was never acknowledged.
/// A write or read that fails at the disk has one of the codes kExhausted, kUnavailable and kCorrupt.
Result<std::unique_ptr<KvStore>> open_rocksdb(std::filesystem::path folder, RocksDbOptions options = {});

}  // namespace pharos::storage
