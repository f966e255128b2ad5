#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <pharos/base/clock.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/collective/operation.hpp>
#include <pharos/ml/elsewhere.hpp>

namespace pharos::ml::detail {

/// An operation that is under way. The backend that began it derives its own class from this one, and keeps it until it
/// has ended or failed, also if the caller drops it. `number` and `began` are set by Core.
class Work {
 public:
  Work() = default;
  Work(Work&&) = delete;
  virtual ~Work() = default;

  std::uint64_t number = 0;  ///< Its number among the operations of its communicator, from 1.
  TimePoint began{};
};

/// The places of an operation's data on this rank. A value: the memory is the caller's, and stays until the operation
/// has ended or failed.
struct Places {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;  ///< Equal to `from` if the operation works in place.
  /// The parts of this rank's own piece that are not in `from`. Only for a reduce_scatter whose `from` the backend
  /// works_on().
  std::span<const Elsewhere> own{};
};

/// One step of an operation: `operation` is what this rank does in the step, and `of` is the whole operation that the
/// user has begun. Ranks compare `of` with each other, and error messages describe `of`.
struct Step {
  Operation operation{};
  Operation of{};
};

/// The way in which ranks work together; a communicator's Core owns it. All ranks begin the same operations in the same
/// order. Messages are the exception: each pair of ranks has an order of its own. Operations may end in any order. When
/// an operation fails, all operations fail on all ranks, with the same error: advance(), finish() and check() return it
/// from then on, except for an operation that had ended before. The caller passes only Works of this backend. Over
/// shared memory and TCP the destructor tells the other ranks that this one leaves; they fail with kActorDied if they
/// still wait for it. One thread at a time.
class Backend {
 public:
  Backend() = default;
  Backend(Backend&&) = delete;
  virtual ~Backend() = default;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t ranks() const = 0;
  virtual bool shares_memory() const = 0;
  /// Returns whether Places and allocated memory are in the memory of a GPU.
  virtual bool is_on_gpu() const { return false; }
  /// The bytes that this rank has sent over TCP so far.
  virtual std::uint64_t bytes_sent() const = 0;

  /// Begins an operation whose arguments the caller has checked. Reports no failure: advance() and finish() do.
  virtual std::shared_ptr<Work> begin(const Operation& operation, const Places& places) = 0;
  /// Continues as far as possible without waiting. Returns true once the operation has ended.
  virtual Result<bool> advance(Work& work) = 0;
  /// Waits until the operation has ended, but no longer than `time` and, over TCP, a few seconds that the search for a
  /// late rank takes. Other operations may end earlier or later. When the time is over, all operations fail on all
  /// ranks with kDeadlineExceeded, which names the late rank if it was found.
  virtual Result<void> finish(Work& work, Duration time) = 0;
  /// Lets all work that this thread gives to the GPU from now on come after the operation, and does not wait for it. A
  /// failure of the operation is returned by later calls. Without a GPU the same as finish().
  virtual Result<void> join(Work& work, Duration time) { return finish(work, time); }

  /// Allocates memory filled with zeros in which operations work without copies. All ranks allocate the same size at
  /// the same time. If one rank cannot, all operations fail on all ranks. Each rank gives its memory back by free(),
  /// when it likes.
  virtual Result<std::byte*> allocate(std::size_t bytes, Duration time) = 0;
  /// Allocates one memory for all ranks; kFailedPrecondition unless shares_memory(). Given back by free(), too, which
  /// ignores memory that it does not know.
  virtual Result<std::byte*> allocate_for_all(std::size_t /*bytes*/, Duration /*time*/) {
    return Error{ErrorCode::kFailedPrecondition, "allocate_for_all() needs ranks that share memory",
                 "Check Communicator::shares_memory() first."};
  }
  virtual void free(std::byte* memory) = 0;
  /// Returns whether ranks reduce data in this memory without copying it first.
  virtual bool works_on(std::span<const std::byte> /*memory*/) const { return false; }

  /// Makes all present and later operations fail on all ranks, with `why` unless there is an earlier failure. Returns
  /// when those of this rank have failed.
  virtual void fail(const Error& why) = 0;
  /// Returns the failure, if an operation has failed or a rank has died, also when no operation is under way.
  virtual Result<void> check() = 0;
  /// The same, but does nothing else, and on any thread, also while another one uses the backend.
  virtual std::optional<Error> failure() = 0;
};

}  // namespace pharos::ml::detail
