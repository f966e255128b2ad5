#pragma once

#include <condition_variable>
#include <mutex>

namespace pharos::storage {

/// Stands between this whole program, RocksDB included, and fdatasync() and fsync(): counts the syncs of write-ahead
/// logs, holds them up, or lets them fail as a disk would. One at a time.
class SyncWatch {
 public:
  SyncWatch();
  SyncWatch(SyncWatch&&) = delete;
  ~SyncWatch();

  int syncs() const;

  /// From now on a sync of a log waits for release().
  void hold();
  void wait_until_one_is_held();
  void release();

  /// From now on a sync of a log fails, with the error number; the bytes may or may not be on the disk.
  void fail_with(int error_number);

  /// What fdatasync() and fsync() ask: the error number, or 0.
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
