#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <pharos/async/deadline.hpp>

namespace pharos::detail {
class Function;
}

namespace pharos::actors {

/// What a call is run again for.
struct Retries {
  const detail::Function* types = nullptr;  ///< null: nothing
  std::uint32_t max = 0;                    ///< until it has been run again so often
};

/// A call that has begun, and waits for something.
class SuspendedCall {
 public:
  virtual ~SuspendedCall() = default;
  /// What it waits for ends.
  virtual void cancel_wait() = 0;
};

/// What a caller has said of the few of its calls of which there is something to say, by their numbers: from when the
/// call is heard of until it has ended. Any thread.
class CallMarks {
 public:
  struct Mark {
    bool cancelled = false;
    async::Deadline deadline = async::Deadline::never();
    Retries retries{};
  };

  /// Wakes one that is suspended. Ignored for one that has ended.
  void note_cancel(std::uint64_t number);
  void note_deadline(std::uint64_t number, async::Deadline deadline);
  void note_retries(std::uint64_t number, Retries retries);
  /// Calls up to this one have begun.
  void note_begun(std::uint64_t number) { first_not_begun_.store(number + 1, std::memory_order_relaxed); }
  /// Wakes it if it has been cancelled meanwhile.
  void note_suspended(std::uint64_t number, std::shared_ptr<SuspendedCall> call);

  /// Nobody waits for any of them any more: those that are suspended are woken, and so is each that still will be.
  void cancel_suspended();

  Mark of(std::uint64_t number) const { return any_.load(std::memory_order_acquire) ? find(number) : Mark{}; }
  /// It has ended.
  void forget(std::uint64_t number) {
    if (any_.load(std::memory_order_relaxed)) erase(number);
  }

 private:
  Mark find(std::uint64_t number) const;
  void erase(std::uint64_t number);

  std::atomic<std::uint64_t> first_not_begun_ = 0;
  std::atomic<bool> any_ = false;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Mark> marks_;
  std::unordered_map<std::uint64_t, std::shared_ptr<SuspendedCall>> suspended_;
  bool over_ = false;
};

}  // namespace pharos::actors
