#pragma once

#include <filesystem>

#include <pharos/base/result.hpp>

namespace pharos::storage {

/// Whether the files that a store cannot be without are there, and its logs whole: RocksDB makes a new, empty store
/// where CURRENT is missing, and never asks for a write-ahead log that is gone.
/// Succeeds for a folder without a store, and for one whose making was interrupted. kCorrupt names the file.
Result<void> check_files(const std::filesystem::path& folder);

}  // namespace pharos::storage
