#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <pharos/base/result.hpp>

namespace pharos::ml {

/// A database in a file, to be read, by the SQLite that the system has: it is loaded when it is needed, and need not be
/// there when Pharos is built. One thread.
class Sqlite {
 public:
  /// kUnsupported: there is no SQLite; else what SQLite says.
  static Result<Sqlite> open(const std::filesystem::path& file);

  class Row {
   public:
    virtual ~Row() = default;
    virtual std::optional<double> number(int column) const = 0;  ///< none: it is null
    virtual std::string text(int column) const = 0;
  };
  /// `key` is for the query's ?1.
  Result<void> each(const std::string& query, std::int64_t key, const std::function<void(const Row& row)>& take) const;

 private:
  struct Library;
  explicit Sqlite(std::shared_ptr<void> database) : database_{std::move(database)} {}
  static Result<const Library*> library();

  std::shared_ptr<void> database_;
};

}  // namespace pharos::ml
