#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <pharos/base/result.hpp>

namespace pharos::ml {

/// A database in a file, opened for reading, by the SQLite of the system. The library is loaded at the first open(); it
/// is not needed to build Pharos. One thread.
class Sqlite {
 public:
  /// Fails with kUnsupported if SQLite cannot be loaded, and with kUnavailable and SQLite's message if the file cannot
  /// be opened.
  static Result<Sqlite> open(const std::filesystem::path& file);

  class Row {
   public:
    virtual ~Row() = default;
    virtual std::optional<double> number(int column) const = 0;  ///< nullopt if the column is null
    virtual std::string text(int column) const = 0;              ///< empty if the column is null
  };
  /// Runs a query and calls `take` for each row. `key` replaces ?1 in the query. Fails with kCorrupt and SQLite's
  /// message.
  Result<void> each(const std::string& query, std::int64_t key, const std::function<void(const Row& row)>& take) const;

 private:
  struct Library;
  explicit Sqlite(std::shared_ptr<void> database) : database_{std::move(database)} {}
  static Result<const Library*> library();

  std::shared_ptr<void> database_;
};

}  // namespace pharos::ml
