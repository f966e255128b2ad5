#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <pharos/base/error.hpp>
#include <pharos/base/result.hpp>

#include "database.hpp"

namespace pharos::storage {

/// Loads libpharos_rocksdb.so, if it is not loaded yet, and opens the database of a folder with it. The library is
/// never unloaded, because its threads may outlive the database. Blocks. Any thread. Fails with kNotFound if the
/// library cannot be loaded, and with the errors of to_error().
Result<std::unique_ptr<Database>> open_database(const std::filesystem::path& folder);

/// Converts a failure of the database to an Error. `attempted` names the attempt: "writing to the store in
/// /var/lib/pharos". The code is kExhausted (no room on the disk, or no memory), kCorrupt, kUnsupported (a folder of
/// another version), kUnavailable (the disk fails), or else kInternal.
Error to_error(const DatabaseFailure& failed, const std::string& attempted);

}  // namespace pharos::storage
