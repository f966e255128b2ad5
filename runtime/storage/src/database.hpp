#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <pharos/storage/batch.hpp>
#include <pharos/storage/key_value.hpp>

/// What RocksDB does for a store. It is in a library of its own, libpharos_rocksdb.so, which a process loads when it
/// opens its first store (decision 33). The library links nothing of Pharos, so only plain values and this header cross
/// its border.
namespace pharos::storage {

/// Why a call of the database failed.
struct DatabaseFailure {
  enum class Kind { kNoRoom, kNoMemory, kCorrupt, kOtherVersion, kDiskFails, kOther };
  Kind kind = Kind::kOther;
  std::string text;
};

template <class T>
using DatabaseResult = std::variant<T, DatabaseFailure>;

/// An open database. Its owner destroys it after all calls have ended. Threads: any thread may read; one at a time
/// commits. All calls block.
class Database {
 public:
  virtual ~Database() = default;
  virtual DatabaseResult<std::optional<std::string>> read(const std::string& key) const = 0;
  /// Returns at most `limit` pairs whose keys begin with `prefix`, after the key `after` if there is one.
  virtual DatabaseResult<std::vector<KeyValue>> read_page(const std::string& prefix,
                                                          const std::optional<std::string>& after,
                                                          std::size_t limit) const = 0;
  /// Writes these batches in this order, all or none of them, and syncs.
  virtual std::optional<DatabaseFailure> commit(std::span<const Batch* const> batches) = 0;
};

/// Gets the lines that the database would write to a log file.
using DatabaseLog = void (*)(bool is_warning, const std::string& folder, const char* line);

/// Opens the database of a folder, or makes it if the folder has none, and checks all of its files. The library's only
/// function, under the name kOpenDatabase.
using OpenDatabase = void(const std::string& folder, DatabaseLog log,
                          DatabaseResult<std::unique_ptr<Database>>& opened);
inline constexpr const char* kOpenDatabase = "pharos_open_database";

}  // namespace pharos::storage
