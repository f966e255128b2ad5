#include "program/taken_along.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/log.hpp>
#include <pharos/process/build_id.hpp>
#include <pharos/process/libraries.hpp>

namespace pharos::actors {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFilesMax = 4096;
constexpr std::size_t kPathBytesMax = 2 << 20;  // of all files, so that one message has room for them
constexpr ByteCount kBytesMax = 4_GiB;

/// The files, with bounds for all of them.
class Collection {
 public:
  /// Adds the file at `place`, which nodes know by `path`. A path that is there already is passed over.
  Result<void> add(const fs::path& place, std::string path) {
    if (!known_.insert(path).second) return {};
    const Fd file{::open(place.c_str(), O_RDONLY | O_CLOEXEC)};
    if (!file) return Error::from_errno("opening " + place.string() + ", which goes with the program", errno);
    std::error_code error;
    const std::uint64_t size = fs::file_size(place, error);
    if (error) return Error::from_errno("looking at " + place.string(), error.value());
    const ByteCount bytes = bytes_ + ByteCount{size};
    if (files_.size() == kFilesMax || bytes > kBytesMax || path_bytes_ + path.size() > kPathBytesMax) {
      return Error{ErrorCode::kUnsupported,
                   "more goes with this program than " + std::to_string(kFilesMax) + " files, or than " +
                       to_string(kBytesMax) + "; the last file was " + place.string(),
                   "Put large data where all nodes can read it, or into the object store."};
    }
    PHAROS_TRY(const wire::BuildId content, process::build_id_of(file.get()));
    bytes_ = bytes;
    path_bytes_ += path.size();
    files_.push_back({std::move(path), content, size});
    return {};
  }
  std::vector<wire::ProgramFile> take() && { return std::move(files_); }

 private:
  std::vector<wire::ProgramFile> files_;
  std::set<std::string> known_;
  ByteCount bytes_{};
  std::size_t path_bytes_ = 0;
};

bool is_library(const fs::path& path) {
  return path.filename().string().find(".so") != std::string::npos;
}

Result<void> add_folder(Collection& files, const fs::path& folder, const fs::path& base) {
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator{folder, error}; !error && entry != fs::end(entry);
       entry.increment(error)) {
    if (!entry->is_regular_file(error)) continue;
    PHAROS_TRY_VOID(files.add(entry->path(), entry->path().lexically_relative(base).string()));
  }
  if (error) return Error::from_errno("reading the folder " + folder.string(), error.value());
  return {};
}

Result<void> add_named(Collection& files, const std::string& named) {
  std::error_code error;
  if (fs::path{named}.is_absolute() && is_library(named) && fs::is_regular_file(named, error)) {
    return files.add(named, named);
  }
  const fs::path base = fs::current_path();
  fs::path path = (base / named).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // it ended with a slash
  if (!fs::exists(path, error)) {
    return Error{ErrorCode::kInvalidArgument, "\"" + named + "\", which is to go with the program, is not there"};
  }
  const fs::path within = path.lexically_relative(base);
  if (within.empty() || *within.begin() == "..") {
    return Error{ErrorCode::kInvalidArgument,
                 "\"" + named + "\" is to go with the program, but is not in its folder " + base.string(),
                 "Start the program in a folder that has it: its workers find it by the same relative path."};
  }
  return fs::is_directory(path, error) ? add_folder(files, path, base) : files.add(path, within.string());
}

}  // namespace

Result<std::vector<wire::ProgramFile>> files_taken_along(const RuntimeOptions& options) {
  Collection files;
  for (const std::string& library : process::libraries_to_send(process::loaded_libraries(), options.with_libtorch)) {
    // Nodes that have it at its path do not miss it.
    if (const auto added = files.add(library, library); !added) {
      log(LogLevel::kWarn, "a library does not go to nodes that lack it",
          {kv("library", library), kv("why", added.error())});
    }
  }
  for (const std::string& named : options.with) PHAROS_TRY_VOID(add_named(files, named));
  return std::move(files).take();
}

}  // namespace pharos::actors
