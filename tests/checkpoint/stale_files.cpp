#include "stale_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <string>
#include <string_view>
#include <system_error>

#include <pharos/base/export.hpp>

namespace pharos {
namespace {

std::atomic<FileCall> stale_call = FileCall::kNone;
// The path is written before stale_call is set.
std::string& stale_path() {
  static std::string path;
  return path;
}

bool is_stale(FileCall call, std::string_view path) {
  if (stale_call.load() != call || stale_path() != path) return false;
  errno = ESTALE;
  return true;
}

std::string path_of(int file) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file), error);
}

int opened(const char* path, int flags, mode_t mode) {
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

}  // namespace

void make_stale(FileCall call, const std::filesystem::path& path) {
  stale_path() = path;
  stale_call = call;
}

void make_none_stale() {
  stale_call = FileCall::kNone;
}

}  // namespace pharos

// These definitions replace libc's functions, also for the calls of libstdc++.
extern "C" {

PHAROS_API int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return pharos::is_stale(pharos::FileCall::kOpen, path) ? -1 : pharos::opened(path, flags, mode);
}

PHAROS_API DIR* opendir(const char* path) {
  if (pharos::is_stale(pharos::FileCall::kOpen, path)) return nullptr;
  const int file = pharos::opened(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  return file < 0 ? nullptr : ::fdopendir(file);
}

PHAROS_API ssize_t pread(int file, void* to, size_t bytes, off_t place) {
  const bool may_be = pharos::stale_call.load() == pharos::FileCall::kRead;
  if (may_be && pharos::is_stale(pharos::FileCall::kRead, pharos::path_of(file))) return -1;
  return ::syscall(SYS_pread64, file, to, bytes, place);
}

PHAROS_API int stat(const char* path, struct stat* status) {
  if (pharos::is_stale(pharos::FileCall::kLook, path)) return -1;
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, status, 0));
}

PHAROS_API int fsync(int file) {
  const bool may_be = pharos::stale_call.load() == pharos::FileCall::kSync;
  if (may_be && pharos::is_stale(pharos::FileCall::kSync, pharos::path_of(file))) return -1;
  return static_cast<int>(::syscall(SYS_fsync, file));
}

}  // extern "C"
