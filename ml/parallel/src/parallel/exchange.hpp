#pragma once

#include <cstddef>

#include "parallel/buckets.hpp"

namespace pharos::ml {

/// Reduces the gradients of buckets to their mean over all ranks; there is one implementation for each Wire. Owned by
/// Ddp::Core, whose communicator and Buckets outlive it. One thread. A failure between ranks is thrown by any function
/// except bytes_of(). The destructor waits for reductions that are under way, at most for the communicator's timeout,
/// and throws nothing.
class Exchange {
 public:
  Exchange() = default;
  Exchange(Exchange&&) = delete;
  virtual ~Exchange() = default;

  /// Begins the reduction of a bucket. All ranks begin the same buckets in the same order.
  virtual void begin(const Bucket& bucket) = 0;
  /// Goes on with reductions that have been begun, as far as that is possible without waiting.
  virtual void advance() = 0;
  /// Waits until all reductions that have been begun are complete.
  virtual void finish() = 0;
  /// Number of bytes that this rank gives to the reduction of a bucket that has been begun.
  virtual std::size_t bytes_of(const Bucket& bucket) const = 0;
};

}  // namespace pharos::ml
