#pragma once

#include <filesystem>

#include <pharos/base/result.hpp>

/// Checks one of RocksDB's logs (a write-ahead log, or the manifest) before RocksDB reads it.
///
/// Reason: no recovery mode of RocksDB keeps the promises of open_rocksdb(). kPointInTimeRecovery and
/// kSkipAnyCorruptedRecords drop acknowledged records. kAbsoluteConsistency refuses to start after a crash that left
/// half a record. kTolerateCorruptedTailRecords has neither fault, but takes every record that is longer than the rest
/// of the file for a record that a crash cut off, and every header of zeros for the end of a block. A flipped bit in a
/// length within the last 32 KiB then silently drops that record and all later records, in the manifest too. So the
/// store uses kTolerateCorruptedTailRecords, after this check has made sure that the tail which RocksDB will drop is
/// really torn.
///
/// The format is the same as in LevelDB: blocks of 32 KiB. A record, or a fragment of a record, never crosses the end
/// of a block. The rest of a block that is too small for a header is zero.
///   checksum  4 bytes  CRC-32C of kind and bytes, masked
///   length    2 bytes
///   kind      1 byte   1 whole record, 2 first fragment, 3 middle fragment, 4 last fragment
///   bytes     `length` bytes
///
/// Each write is synced before the next write begins, so that a crash tears at most one record, which was never
/// acknowledged. A torn tail satisfies three conditions:
///   1. It is in the last block and fits into that block.
///   2. No whole record follows it.
///   3. It is not itself a whole record whose length field has changed.
/// A whole record with a wrong checksum does not count as torn, because it may have been acknowledged.
namespace pharos::storage {

/// Succeeds for an intact log and for a torn tail, which it leaves in the file. Returns kCorrupt with the file and the
/// offset of the damage, or the error of errno if the file cannot be read. Reads the whole file; the store's options
/// limit its size.
Result<void> check_log(const std::filesystem::path& file);

}  // namespace pharos::storage
