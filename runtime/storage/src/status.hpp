#pragma once

#include <rocksdb/status.h>

#include <filesystem>
#include <string>

#include <pharos/base/error.hpp>

namespace pharos::storage {

/// Converts a failure of RocksDB to an Error. `attempted` names the attempt: "writing to the store in /var/lib/pharos".
/// The code is kExhausted (no room on the disk, or no memory), kCorrupt, kUnsupported (a folder of another version),
/// kUnavailable (the disk fails), or else kInternal.
Error to_error(const rocksdb::Status& failed, const std::string& attempted);

}  // namespace pharos::storage
