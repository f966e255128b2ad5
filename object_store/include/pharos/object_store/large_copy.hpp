#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

namespace pharos::object_store {

/// Copies without filling the caches, for data that is much larger than they are and that other processes will read.
/// The ranges must not overlap. Any thread.
void copy_streaming(std::byte* to, const std::byte* from, std::size_t count);

/// Returns whether at least as many threads run on this machine as it has cores; true if that cannot be found out.
bool machine_is_busy();

/// A second thread that helps with large copies while a core is idle. The thread is started when it is first needed,
/// and joined by the destructor. Owned by a process's StoreClient. Any thread may call run(), but only one call at a
/// time is helped: calls that overlap with it work alone, and so does a child process made by fork().
class SpareCore {
 public:
  explicit SpareCore(bool (*busy)() = &machine_is_busy);
  SpareCore(SpareCore&&) = delete;
  ~SpareCore();

  /// Calls `piece` with each number below `pieces`, perhaps on both threads. Returns when all calls have returned.
  /// `piece` must not throw.
  void run(std::size_t pieces, const std::function<void(std::size_t)>& piece);

 private:
  struct Thread;

  bool (*const busy_)();
  const int process_;
  std::mutex mutex_;  // held during a call that is helped
  std::unique_ptr<Thread> thread_;
};

}  // namespace pharos::object_store
