#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <pharos/base/result.hpp>

namespace pharos::ml {

/// A database in a file, opened for reading, by the SQLite of the system. The library is loaded at the first open() and
/// stays loaded; it is not needed to build Pharos. A local variable of the code that imports studies; one thread. The
/// database is closed with the last copy.
class Sqlite {
 public:
  /// Fails with kUnsupported if SQLite cannot be loaded, and with kUnavailable and SQLite's message if the file cannot
  /// be opened.
  static Result<Sqlite> open(const std::filesystem::path& file);

  /// A row of a result, valid during one call of `take`.
  class Row {
   public:
    virtual ~Row() = default;
    virtual std::optional<double> number(int column) const = 0;  ///< nullopt if the column is null
    virtual std::string text(int column) const = 0;              ///< empty if the column is null
  };
  /// Runs a query and calls `take` for each row. `key` replaces ?1 in the query. Waits up to 5 seconds for a process
  /// that writes. Fails with kCorrupt and SQLite's message, perhaps after some rows, also if that wait was too short.
  /// What `take` throws is passed on.
  Result<void> each(const std::string& query, std::int64_t key, const std::function<void(const Row& row)>& take) const;

 private:
  struct Library;
  explicit Sqlite(std::shared_ptr<void> database) : database_{std::move(database)} {}
  static Result<const Library*> library();

  std::shared_ptr<void> database_;
};

}  // namespace pharos::ml
