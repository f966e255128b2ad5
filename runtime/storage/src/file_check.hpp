#pragma once

#include <filesystem>

#include <pharos/base/result.hpp>

namespace pharos::storage {

/// Checks that the indispensable files of a store exist and that its logs are intact. RocksDB itself makes a new, empty
/// store if CURRENT is missing, and does not notice that a write-ahead log is missing.
/// Succeeds for a folder without a store, and for a store whose creation was interrupted. Otherwise returns kCorrupt
/// with the name of the file, or the error of reading it. Called by open_rocksdb() with the folder locked, before
/// RocksDB reads the folder.
Result<void> check_files(const std::filesystem::path& folder);

}  // namespace pharos::storage
