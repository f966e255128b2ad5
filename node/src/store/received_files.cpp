#include "store/received_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include <pharos/process/build_id.hpp>

namespace pharos::node {
namespace {

namespace fs = std::filesystem;

constexpr ByteCount kLeftFree = 64_MiB;  // stays free on the disk
constexpr ByteCount kUnusedMax = 1_GiB;  // of files that no job uses, and that are kept for later jobs

struct Unused {
  fs::file_time_type used;
  fs::path path;
  ByteCount size;
};

/// Files that no job uses. The one that was used last comes first.
std::vector<Unused> unused_in(const std::string& folder) {
  std::vector<Unused> unused;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{folder, error}) {
    if (!entry.is_regular_file(error) || entry.path().has_extension() || entry.hard_link_count(error) > 1) continue;
    const Fd file{::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC)};
    if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;
    unused.push_back({entry.last_write_time(error), entry.path(), ByteCount{entry.file_size(error)}});
  }
  std::sort(unused.begin(), unused.end(), [](const Unused& a, const Unused& b) { return a.used > b.used; });
  return unused;
}

}  // namespace

std::string path_of_received(const std::string& folder, const wire::BuildId& content) {
  std::string path = folder + "/";
  for (const std::uint8_t byte : content) path += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return path;
}

Fd open_received(const std::string& folder, const wire::BuildId& content) {
  Fd file{::open(path_of_received(folder, content).c_str(), O_RDONLY | O_CLOEXEC)};
  if (file) {
    ::flock(file.get(), LOCK_SH);
    ::futimens(file.get(), nullptr);  // unused_in() sorts by the time of the last use
  }
  return file;
}

Fd open_if_it_is(const std::string& path, const wire::ProgramFile& file) {
  Fd opened = open_regular(path);
  struct stat status {};
  if (!opened || ::fstat(opened.get(), &status) != 0) return {};
  if (static_cast<std::uint64_t>(status.st_size) != file.size) return {};
  const auto content = process::build_id_of(opened.get());
  return content && *content == file.content ? std::move(opened) : Fd{};
}

Fd open_regular(const std::string& path) {
  Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return file;
}

Result<void> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return Error::from_errno("making the folder " + path, errno);
}

Result<void> make_room(const std::string& folder, ByteCount size) {
  auto unused = unused_in(folder);
  ByteCount kept{};
  for (const Unused& each : unused) kept = kept + each.size;
  for (;;) {
    struct statvfs disk {};
    if (::statvfs(folder.c_str(), &disk) != 0) return Error::from_errno("looking at the disk of " + folder, errno);
    const std::string remedy =
        "Set PHAROS_FOLDER for that node to a folder on another disk, or put the program at the same path there.";
    if ((disk.f_flag & ST_NOEXEC) != 0) {
      return Error{ErrorCode::kPermissionDenied, "no program may be run from " + folder, remedy};
    }
    const ByteCount left{std::uint64_t{disk.f_bavail} * disk.f_frsize};
    const bool fits = size + kLeftFree <= left;
    if (fits && kept <= kUnusedMax) return {};
    if (unused.empty()) {
      return Error{ErrorCode::kExhausted,
                   "the program needs " + to_string(size) + ", but the disk of " + folder + " has " + to_string(left) +
                       " left, of which " + to_string(kLeftFree) + " must stay free",
                   remedy};
    }
    std::error_code error;
    fs::remove(unused.back().path, error);
    kept = kept - unused.back().size;
    unused.pop_back();
  }
}

}  // namespace pharos::node
