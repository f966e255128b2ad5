#include "open_database.hpp"

#include <dlfcn.h>

#include <pharos/base/log.hpp>

namespace pharos::storage {
namespace {

Result<OpenDatabase*> load_library() {
  const auto failure = [](const std::string& why) {
    return Error{ErrorCode::kNotFound, "the library that keeps records on disk cannot be loaded: " + why,
                 "Install librocksdb, and keep " PHAROS_ROCKSDB_LIBRARY " where this version of Pharos was installed."};
  };
  void* const library = ::dlopen(PHAROS_ROCKSDB_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return failure(::dlerror());
  void* const function = ::dlsym(library, kOpenDatabase);
  if (function == nullptr) return failure(::dlerror());
  return reinterpret_cast<OpenDatabase*>(function);
}

void log_line(bool is_warning, const std::string& folder, const char* line) {
  log(is_warning ? LogLevel::kWarn : LogLevel::kDebug, "rocksdb", {{"folder", folder}, {"line", line}});
}

}  // namespace

Result<std::unique_ptr<Database>> open_database(const std::filesystem::path& folder) {
  static const Result<OpenDatabase*> open = load_library();
  if (!open) return open.error();
  DatabaseResult<std::unique_ptr<Database>> opened;
  (*open)(folder.string(), &log_line, opened);
  if (const auto* failed = std::get_if<DatabaseFailure>(&opened)) {
    return to_error(*failed, "opening the store in " + folder.string());
  }
  return std::get<std::unique_ptr<Database>>(std::move(opened));
}

Error to_error(const DatabaseFailure& failed, const std::string& attempted) {
  const std::string message = attempted + ": " + failed.text;
  using Kind = DatabaseFailure::Kind;
  switch (failed.kind) {
    case Kind::kNoRoom: return {ErrorCode::kExhausted, message, "Free some space on that disk."};
    case Kind::kNoMemory: return {ErrorCode::kExhausted, message, "Give the process more memory."};
    case Kind::kCorrupt:
      return {ErrorCode::kCorrupt, message,
              "Look at the disk, and restore the folder from a copy; or move it away to start with an empty store."};
    case Kind::kOtherVersion:
      return {ErrorCode::kUnsupported, message, "Use a folder that this version of Pharos has made."};
    case Kind::kDiskFails: return {ErrorCode::kUnavailable, message, "Look at the disk."};
    case Kind::kOther: break;
  }
  return {ErrorCode::kInternal, message, "Please report this."};
}

}  // namespace pharos::storage
