#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <pharos/async/executor.hpp>

#include "store/node_store.hpp"
#include "store/store_work.hpp"

namespace pharos::node {

/// Gives free memory of the store back to the system: at once when a request waits for memory, else five seconds later,
/// because the next object may need the memory. Nothing here fails.
/// Owned by StoreService; on the node's strand, and the work runs by StoreWork, which outlives this object. Its timers
/// use this object: the executor has to stop before the destructor.
class IdleMemory {
 public:
  /// `released` is called on the strand whenever some memory is back in the system.
  IdleMemory(async::Executor& executor, std::shared_ptr<NodeStore> store, StoreWork& work,
             std::function<void()> released)
      : executor_{executor}, store_{std::move(store)}, work_{work}, released_{std::move(released)} {}

  /// Begins to give back `bytes` of free memory, or all of it if there is less.
  void release(std::uint64_t bytes);
  /// Gives all free memory back after five seconds.
  void release_later();
  /// Memory that is on its way back to the system.
  std::uint64_t releasing_bytes() const { return releasing_bytes_; }

 private:
  async::Executor& executor_;
  const std::shared_ptr<NodeStore> store_;
  StoreWork& work_;
  const std::function<void()> released_;
  std::uint64_t releasing_bytes_ = 0;
  bool releases_later_ = false;
};

}  // namespace pharos::node
