#pragma once

#include <filesystem>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

namespace pharos::storage {

/// Makes the folder if needed, and keeps everybody else out of it, this process included, while the descriptor lives.
/// Says why not: kAlreadyExists (somebody has it), kPermissionDenied, kExhausted. Before RocksDB is asked, whose own
/// lock says neither who nor why in a way that a program can read.
Result<Fd> lock_folder(const std::filesystem::path& folder);

}  // namespace pharos::storage
