#pragma once

#include <filesystem>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

namespace pharos::storage {

/// Makes the folder if it does not exist, and locks it as long as the returned descriptor is open. The lock also keeps
/// out other stores of this process. Fails with kAlreadyExists (the folder is locked), kPermissionDenied, kExhausted,
/// kInvalidArgument (not a folder), or another error of errno. Called before RocksDB opens the folder, because the
/// errors of RocksDB's own lock cannot be interpreted by a program.
Result<Fd> lock_folder(const std::filesystem::path& folder);

}  // namespace pharos::storage
