#include "sync_watch.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>

#include <pharos/base/check.hpp>

namespace pharos::storage {
namespace {

std::atomic<SyncWatch*> watch{nullptr};

bool is_log(int fd) {
  std::error_code failed;
  const auto file = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), failed);
  return !failed && file.extension() == ".log";
}

int sync_unless_told_otherwise(long system_call, int fd) {
  if (auto* watching = watch.load()) {
    if (const int error_number = watching->before_sync(fd); error_number != 0) {
      errno = error_number;
      return -1;
    }
  }
  return static_cast<int>(::syscall(system_call, fd));
}

}  // namespace

SyncWatch::SyncWatch() {
  SyncWatch* none = nullptr;
  PHAROS_CHECK(watch.compare_exchange_strong(none, this));
}

SyncWatch::~SyncWatch() {
  release();
  watch = nullptr;
}

int SyncWatch::syncs() const {
  std::lock_guard lock{mutex_};
  return syncs_;
}

void SyncWatch::hold() {
  std::lock_guard lock{mutex_};
  holding_ = true;
}

void SyncWatch::wait_until_one_is_held() {
  std::unique_lock lock{mutex_};
  const bool one_is_held = changed_.wait_for(lock, std::chrono::seconds{30}, [this] { return held_ > 0; });
  PHAROS_CHECK(one_is_held);
}

void SyncWatch::release() {
  std::lock_guard lock{mutex_};
  holding_ = false;
  changed_.notify_all();
}

void SyncWatch::fail_with(int error_number) {
  std::lock_guard lock{mutex_};
  error_number_ = error_number;
}

int SyncWatch::before_sync(int fd) {
  if (!is_log(fd)) return 0;
  std::unique_lock lock{mutex_};
  ++syncs_;
  ++held_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !holding_; });
  --held_;
  return error_number_;
}

}  // namespace pharos::storage

// RocksDB is linked dynamically, so its calls of fdatasync() and fsync() reach these functions too.
extern "C" __attribute__((visibility("default"))) int fdatasync(int fd) {
  return pharos::storage::sync_unless_told_otherwise(SYS_fdatasync, fd);
}
extern "C" __attribute__((visibility("default"))) int fsync(int fd) {
  return pharos::storage::sync_unless_told_otherwise(SYS_fsync, fd);
}
