#pragma once

#include <condition_variable>
#include <mutex>

namespace pharos::storage {

/// Intercepts fdatasync() and fsync() of the whole program, including RocksDB: it counts the syncs of write-ahead logs,
/// holds them up, or makes them fail as a disk would. At most one SyncWatch may exist at a time.
class SyncWatch {
 public:
  SyncWatch();
  SyncWatch(SyncWatch&&) = delete;
  ~SyncWatch();

  int syncs() const;

  /// Makes each further sync of a log wait for release().
  void hold();
  void wait_until_one_is_held();
  void release();

  /// Makes each further sync of a log fail with `error_number`, or succeed if it is 0. After a failure the bytes may or
  /// may not be on the disk.
  void fail_with(int error_number);

  /// Called by fdatasync() and fsync(). Returns the error number with which they must fail, or 0.
  int before_sync(int fd);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int syncs_ = 0;
  bool holding_ = false;
  int held_ = 0;
  int error_number_ = 0;
};

}  // namespace pharos::storage
