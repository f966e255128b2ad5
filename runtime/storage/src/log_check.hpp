#pragma once

#include <filesystem>

#include <pharos/base/result.hpp>

/// A look at one of RocksDB's logs (a write-ahead log, or the manifest) before RocksDB reads it.
///
/// Why: none of RocksDB's recovery modes does what we promise. kPointInTimeRecovery and kSkipAnyCorruptedRecords drop
/// acknowledged records. kAbsoluteConsistency refuses to start after a crash that left half a record behind. And
/// kTolerateCorruptedTailRecords, which is right about both, takes every record that is longer than the rest of the
/// file for one that a crash cut off, and every header of zeros for the end of a block: a flipped bit in a length
/// within the last 32 KiB silently drops that record and all those after it, in the manifest too. So we use the latter
/// mode, after making sure that what it will take for a torn tail is one.
///
/// The format, the same since LevelDB: blocks of 32 KiB. A record, or a fragment of one, never crosses a block's end;
/// what is left of a block and too small for a header is zero.
///   checksum  4 bytes  CRC-32C of kind and bytes, masked
///   length    2 bytes
///   kind      1 byte   1 whole, 2 first fragment, 3 middle, 4 last
///   bytes     `length` of them
///
/// We sync each write before the next begins, so a crash tears at most one, of which nobody was told. A torn tail is
///   1. in the last block, and fits into it;
///   2. not followed by a whole record;
///   3. not itself a whole record whose length has changed.
/// A whole record with a wrong checksum is never taken for one: it may have been acknowledged.
namespace pharos::storage {

/// kCorrupt names the file and the place. Reads all of it: our options bound its size.
Result<void> check_log(const std::filesystem::path& file);

}  // namespace pharos::storage
