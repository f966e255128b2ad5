#pragma once

#include <memory>
#include <utility>

namespace pharos::ml {

/// While it lives, backwards of the Ddp or Sharded that has made it only sum up their gradients on this rank. The next
/// backward without a NoSync reduces the sums together with its own gradients. May be nested. Used on the thread that
/// calls backward(). It cannot fail. It keeps the state of the Ddp or Sharded, so it may be destroyed after that
/// object.
class NoSync {
 public:
  /// `count` is the number of NoSyncs that live.
  explicit NoSync(std::shared_ptr<int> count) : count_{std::move(count)} { ++*count_; }
  NoSync(NoSync&&) = delete;
  ~NoSync() { --*count_; }

 private:
  const std::shared_ptr<int> count_;
};

}  // namespace pharos::ml
