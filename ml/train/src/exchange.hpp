#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/ddp.hpp>

#include "buckets.hpp"

namespace pharos::ml {

/// How the gradients of a bucket become their mean over all ranks.
class Exchange {
 public:
  Exchange() = default;
  Exchange(Exchange&&) = delete;
  virtual ~Exchange() = default;

  /// All ranks begin the same buckets in the same order.
  virtual void begin(const Bucket& bucket) = 0;
  /// Goes on without waiting.
  virtual void advance() = 0;
  /// Of all that have been begun.
  virtual void finish() = 0;
  /// What this rank gives for a bucket that has been begun.
  virtual std::size_t bytes_of(const Bucket& bucket) const = 0;
};

/// `steps`: how many have been reduced before.
std::unique_ptr<Exchange> make_exchange(Communicator& ranks, Buckets& buckets, const DdpOptions& options,
                                        std::uint64_t steps);

}  // namespace pharos::ml
