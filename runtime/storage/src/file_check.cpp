#include "file_check.hpp"

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "log_check.hpp"

namespace pharos::storage {
namespace {

// The name of the manifest while RocksDB creates a store. RocksDB replaces this manifest when it opens the store, so a
// store that has this manifest was never opened completely, and may have no log.
constexpr auto kFirstManifest = "MANIFEST-000001";

Error missing(const std::filesystem::path& file) {
  return {ErrorCode::kCorrupt, file.string() + " is missing, though the folder has other files of a store",
          "Restore the folder from a copy; or move it away to start with an empty store."};
}

struct Files {
  std::vector<std::filesystem::path> logs;
  bool has_tables = false;
};

Result<Files> list(const std::filesystem::path& folder) {
  Files files;
  std::error_code failed;
  for (auto entry = std::filesystem::directory_iterator{folder, failed};
       !failed && entry != std::filesystem::directory_iterator{}; entry.increment(failed)) {
    const auto extension = entry->path().extension();
    if (extension == ".log") files.logs.push_back(entry->path());
    if (extension == ".sst") files.has_tables = true;
  }
  if (failed) return Error::from_errno("listing " + folder.string(), failed.value());
  return files;
}

Result<bool> is_there(const std::filesystem::path& file) {
  std::error_code failed;
  const bool exists = std::filesystem::exists(file, failed);
  if (failed) return Error::from_errno("looking for " + file.string(), failed.value());
  return exists;
}

}  // namespace

Result<void> check_files(const std::filesystem::path& folder) {
  PHAROS_TRY(const Files files, list(folder));
  PHAROS_TRY(const bool has_current, is_there(folder / "CURRENT"));
  if (!has_current) {
    if (files.logs.empty() && !files.has_tables) return {};
    return missing(folder / "CURRENT");
  }
  std::ifstream current{folder / "CURRENT"};
  std::string manifest;
  std::getline(current, manifest);
  if (!current.is_open() || current.bad()) {
    return Error::from_errno("reading " + (folder / "CURRENT").string(), errno);
  }
  if (!manifest.starts_with("MANIFEST-")) {
    return Error{ErrorCode::kCorrupt, (folder / "CURRENT").string() + " does not name a manifest",
                 "Restore the folder from a copy; or move it away to start with an empty store."};
  }
  PHAROS_TRY(const bool has_manifest, is_there(folder / manifest));
  if (!has_manifest) return missing(folder / manifest);
  if (files.logs.empty() && manifest != kFirstManifest) return missing(folder / "*.log");
  PHAROS_TRY_VOID(check_log(folder / manifest));
  for (const auto& log : files.logs) PHAROS_TRY_VOID(check_log(log));
  return {};
}

}  // namespace pharos::storage
