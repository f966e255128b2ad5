#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <pharos/async/executor.hpp>

#include "store/node_store.hpp"
#include "store/store_work.hpp"

namespace pharos::node {

/// Gives free memory of the store back to the system: at once when a request waits for memory, else some seconds later,
/// because the next object may need the memory.
/// Owned by StoreService; on the node's strand.
class IdleMemory {
 public:
  /// `released` is called whenever some memory is back in the system.
  IdleMemory(async::Executor& executor, std::shared_ptr<NodeStore> store, StoreWork& work,
             std::function<void()> released)
      : executor_{executor}, store_{std::move(store)}, work_{work}, released_{std::move(released)} {}

  /// Begins to give back `bytes` of free memory, or all of it if there is less.
  void release(std::uint64_t bytes);
  /// Gives all free memory back after kIdleTime.
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
