#include "import/sqlite.hpp"

#include <dlfcn.h>

#include <utility>

namespace pharos::ml {
namespace {

constexpr const char* kName = "libsqlite3.so.0";
constexpr int kOk = 0;
constexpr int kRow = 100;
constexpr int kDone = 101;
constexpr int kNull = 5;
constexpr int kReadOnly = 1;
constexpr int kWaitMs = 5000;  // the longest wait for the lock of a process that writes

}  // namespace

/// SQLite's functions, with the prototypes of its documentation.
struct Sqlite::Library {
  int (*open)(const char* file, void** database, int flags, const char* system);
  int (*close)(void* database);
  int (*busy_timeout)(void* database, int ms);
  const char* (*message)(void* database);
  int (*prepare)(void* database, const char* query, int bytes, void** statement, const char** rest);
  int (*bind)(void* statement, int index, std::int64_t value);
  int (*step)(void* statement);
  int (*finalize)(void* statement);
  int (*type)(void* statement, int column);
  double (*number)(void* statement, int column);
  const unsigned char* (*text)(void* statement, int column);
  int (*bytes)(void* statement, int column);
};

Result<const Sqlite::Library*> Sqlite::library() {
  static const auto loaded = []() -> Result<Library> {
    void* const file = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
    const char* missing = file == nullptr ? kName : nullptr;
    Library its{};
    const auto find = [&](auto& function, const char* name) {
      if (missing != nullptr) return;
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(file, name));
      if (function == nullptr) missing = name;
    };
    find(its.open, "sqlite3_open_v2");
    find(its.close, "sqlite3_close_v2");
    find(its.busy_timeout, "sqlite3_busy_timeout");
    find(its.message, "sqlite3_errmsg");
    find(its.prepare, "sqlite3_prepare_v2");
    find(its.bind, "sqlite3_bind_int64");
    find(its.step, "sqlite3_step");
    find(its.finalize, "sqlite3_finalize");
    find(its.type, "sqlite3_column_type");
    find(its.number, "sqlite3_column_double");
    find(its.text, "sqlite3_column_text");
    find(its.bytes, "sqlite3_column_bytes");
    if (missing == nullptr) return its;
    return Error{ErrorCode::kUnsupported, "SQLite cannot be loaded: there is no " + std::string{missing},
                 "Install it (apt install libsqlite3-0)."};
  }();
  if (!loaded) return loaded.error();
  return &*loaded;
}

Result<Sqlite> Sqlite::open(const std::filesystem::path& file) {
  PHAROS_TRY(const Library* const its, library());
  void* database = nullptr;
  const int status = its->open(file.c_str(), &database, kReadOnly, nullptr);
  std::shared_ptr<void> owned{database, its->close};
  if (status != kOk) {
    return Error{ErrorCode::kUnavailable,
                 "opening " + file.string() + ": " + (database == nullptr ? "out of memory" : its->message(database))};
  }
  its->busy_timeout(database, kWaitMs);
  return Sqlite{std::move(owned)};
}

Result<void> Sqlite::each(const std::string& query, std::int64_t key,
                          const std::function<void(const Row& row)>& take) const {
  PHAROS_TRY(const Library* const its, library());
  const auto failure = [&] {
    return Error{ErrorCode::kCorrupt, std::string{"reading the database: "} + its->message(database_.get())};
  };
  void* prepared = nullptr;
  if (its->prepare(database_.get(), query.c_str(), -1, &prepared, nullptr) != kOk) return failure();
  const std::unique_ptr<void, int (*)(void*)> statement{prepared, its->finalize};
  if (query.find("?1") != std::string::npos && its->bind(prepared, 1, key) != kOk) return failure();

  class Here final : public Row {
   public:
    Here(const Library& library, void* statement) : library_{library}, statement_{statement} {}
    std::optional<double> number(int column) const override {
      if (library_.type(statement_, column) == kNull) return std::nullopt;
      return library_.number(statement_, column);
    }
    std::string text(int column) const override {
      const auto* const begin = reinterpret_cast<const char*>(library_.text(statement_, column));
      if (begin == nullptr) return {};
      return {begin, static_cast<std::size_t>(library_.bytes(statement_, column))};
    }

   private:
    const Library& library_;
    void* const statement_;
  };
  const Here row{*its, prepared};
  for (;;) {
    const int status = its->step(prepared);
    if (status == kDone) return {};
    if (status != kRow) return failure();
    take(row);
  }
}

}  // namespace pharos::ml
