// A library for LD_PRELOAD that makes the death of a process lose data as a power failure does: bytes that the process
// writes to files *.log below POWER_LOSS_FOLDER stay in its memory until it syncs or closes the file, and are lost if
// the process dies before. With POWER_LOSS_LIES a sync reports success, but writes nothing.

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace {

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}
ssize_t really_write(int fd, const void* bytes, std::size_t size) {
  static const auto function = real<ssize_t (*)(int, const void*, std::size_t)>("write");
  return function(fd, bytes, size);
}

bool is_log(int fd) {
  static const char* const folder = std::getenv("POWER_LOSS_FOLDER");
  if (folder == nullptr || fd < 3) return false;
  std::array<char, 512> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(link.c_str(), path.data(), path.size());
  if (size <= 0) return false;
  const std::string_view file{path.data(), static_cast<std::size_t>(size)};
  return file.starts_with(folder) && file.ends_with(".log");
}

std::mutex mutex;
std::map<int, std::string>& unsynced() {
  static auto& all = *new std::map<int, std::string>;
  return all;
}

// The caller holds the lock.
bool write_through(int fd) {
  auto bytes = unsynced().extract(fd);
  if (bytes.empty()) return true;
  const std::string& all = bytes.mapped();
  for (std::size_t done = 0; done < all.size();) {
    const ssize_t some = really_write(fd, all.data() + done, all.size() - done);
    if (some <= 0) return false;
    done += static_cast<std::size_t>(some);
  }
  return true;
}

int sync_as(const char* name, int fd) {
  static const bool lies = std::getenv("POWER_LOSS_LIES") != nullptr;
  if (is_log(fd)) {
    if (lies) return 0;
    const std::lock_guard lock{mutex};
    if (!write_through(fd)) return -1;
  }
  return real<int (*)(int)>(name)(fd);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) ssize_t write(int fd, const void* bytes, std::size_t size) {
  if (!is_log(fd)) return really_write(fd, bytes, size);
  const std::lock_guard lock{mutex};
  unsynced()[fd].append(static_cast<const char*>(bytes), size);
  return static_cast<ssize_t>(size);
}
__attribute__((visibility("default"))) int fdatasync(int fd) {
  return sync_as("fdatasync", fd);
}
__attribute__((visibility("default"))) int fsync(int fd) {
  return sync_as("fsync", fd);
}
__attribute__((visibility("default"))) int close(int fd) {
  static const auto function = real<int (*)(int)>("close");
  if (is_log(fd)) {
    const std::lock_guard lock{mutex};
    write_through(fd);
  }
  return function(fd);
}
}
