#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <pharos/async/unique_function.hpp>

namespace pharos::actors {

/// The holds of actors that this process has taken, and the head has not counted yet. Whoever has sent the handle keeps
/// its own until this process says that its hold counts, so that somebody holds the actor all the time.
/// Owned by KnownActors. Any thread. The destructor drops what waits, without running it.
class UncountedHolds {
 public:
  /// The head will be told of one hold more. Returns the number for counted().
  std::uint64_t add();
  /// The head has counted the hold, or cannot be asked any more. Runs, inside this call, all that waits for no other
  /// hold now. To be called once for each add().
  void counted(std::uint64_t number);
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }
  /// Runs `then` once the holds of this moment are counted: inside this call if all are.
  void when_counted(async::Callback then);

 private:
  std::atomic<std::size_t> count_ = 0;  // the size of numbers_
  std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::set<std::uint64_t> numbers_;
  // Each with the last hold for which it waits; in the order of these holds.
  std::vector<std::pair<std::uint64_t, async::Callback>> waiting_;
};

}  // namespace pharos::actors
