#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

namespace pharos::object_store {

/// Copies past the caches: what is copied is many times larger, and others will read it.
void copy_streaming(std::byte* to, const std::byte* from, std::size_t count);

/// Whether as many threads run on this machine as it has cores.
bool machine_is_busy();

/// A second pair of hands for large copies, when a core has nothing else to do. The thread is there once it was needed.
/// Owned by a process's Lessee. One thread at a time is helped; who comes meanwhile works alone, and so does a child of
/// fork().
class SpareCore {
 public:
  explicit SpareCore(bool (*busy)() = &machine_is_busy);
  SpareCore(SpareCore&&) = delete;
  ~SpareCore();

  /// Calls `piece` for each number below `pieces`, some of them perhaps in the other thread; returns when all are done.
  void run(std::size_t pieces, const std::function<void(std::size_t)>& piece);

 private:
  struct Thread;

  bool (*const busy_)();
  const int process_;
  std::mutex mutex_;  // held by whoever is helped
  std::unique_ptr<Thread> thread_;
};

}  // namespace pharos::object_store
