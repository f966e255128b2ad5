#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <pharos/base/clock.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/communicator.hpp>

#include "operation.hpp"

namespace pharos::ml::detail {

/// An operation that is under way, in the backend that began it.
class Work {
 public:
  Work() = default;
  Work(Work&&) = delete;
  virtual ~Work() = default;

  std::uint64_t number = 0;  ///< among the operations of its communicator
  TimePoint began{};
};

/// Where an operation's data is on this rank.
struct Places {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;  ///< the same: in place
  /// Of a reduce_scatter, where the backend works_on() its memory: what of this rank's own piece is not there.
  std::span<const Elsewhere> own{};
};

/// What a rank does, and of what it is a step: ranks must agree on that, and it is what people read.
struct Step {
  Operation operation{};
  Operation of{};
};

/// How ranks work together. Each rank begins the same operations in the same order, but for messages, of which each two
/// ranks have an order of their own; they end in any. One thread at a time. When one of them has failed all others do,
/// on all ranks, with the same reason.
class Backend {
 public:
  Backend() = default;
  Backend(Backend&&) = delete;
  virtual ~Backend() = default;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t ranks() const = 0;
  virtual bool shares_memory() const = 0;
  /// Places are memory of a GPU.
  virtual bool is_on_gpu() const { return false; }
  /// Over TCP.
  virtual std::uint64_t bytes_sent() const = 0;

  virtual std::shared_ptr<Work> begin(const Operation& operation, const Places& places) = 0;
  /// Goes on as far as that is without waiting. True: it has ended.
  virtual Result<bool> advance(Work& work) = 0;
  /// Goes on until it has ended; others that were begun may end before it or later.
  virtual Result<void> finish(Work& work, Duration time) = 0;

  /// Memory that this rank shares with the others, which allocate as much at the same time: operations work on it where
  /// it is. Freed by free(), by each rank when it likes.
  virtual Result<std::byte*> allocate(std::size_t bytes, Duration time) = 0;
  /// One memory for all ranks. Only where shares_memory(). Freed by free() alike.
  virtual Result<std::byte*> allocate_for_all(std::size_t /*bytes*/, Duration /*time*/) {
    return Error{ErrorCode::kFailedPrecondition, "ranks that share no memory have none in common",
                 "Look at Communicator::shares_memory() before."};
  }
  virtual void free(std::byte* memory) = 0;
  /// Whether ranks reduce what is there from where it is.
  virtual bool works_on(std::span<const std::byte> /*memory*/) const { return false; }

  /// All that is begun or comes fails with this, on all ranks.
  virtual void fail(const Error& why) = 0;
  /// What has failed, if something has; also that a rank has died, though nobody waits for it.
  virtual Result<void> check() = 0;
};

}  // namespace pharos::ml::detail
