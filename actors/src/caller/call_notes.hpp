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

/// For which exceptions a call is run again, and how often. A value.
struct Retries {
  const detail::Function* types = nullptr;  ///< a list of exception types; null for none
  std::uint8_t max = 0;                     ///< how often the call is run again: wire::retries_of()
};

/// A call that has begun and is suspended: a coroutine that waits for something. Shared by CallNotes until the call has
/// ended.
class SuspendedCall {
 public:
  virtual ~SuspendedCall() = default;
  /// Ends the present wait and all later ones with kCancelled. Any thread; does not wait.
  virtual void cancel_wait() = 0;
};

/// Notes about the calls of one caller, by number: whether a call was cancelled, its deadline, its retries. Only few
/// calls have a note; it is kept until the call has ended. Owned by the caller's IncomingCalls or RemoteCaller. Any
/// thread. No function fails. The destructor drops suspended calls without waking them.
class CallNotes {
 public:
  struct Note {
    bool cancelled = false;
    async::Deadline deadline = async::Deadline::never();
    Retries retries{};
  };

  /// Notes that the call is cancelled, and wakes it if it is suspended. Ignored for a call that has ended.
  void note_cancel(std::uint64_t number);
  void note_deadline(std::uint64_t number, async::Deadline deadline);
  void note_retries(std::uint64_t number, Retries retries);
  /// Notes that the calls up to this number have begun.
  void note_begun(std::uint64_t number) { first_not_begun_.store(number + 1, std::memory_order_relaxed); }
  /// Notes that the call is suspended. Wakes it at once if it has been cancelled.
  void note_suspended(std::uint64_t number, std::shared_ptr<SuspendedCall> call);

  /// Wakes all suspended calls, because the caller is gone or the worker ends. From now on, a call that is suspended is
  /// woken at once.
  void cancel_suspended();

  Note of(std::uint64_t number) const { return any_.load(std::memory_order_acquire) ? find(number) : Note{}; }
  /// Removes the notes of a call that has ended.
  void forget(std::uint64_t number) {
    if (any_.load(std::memory_order_relaxed)) erase(number);
  }

 private:
  Note find(std::uint64_t number) const;
  void erase(std::uint64_t number);

  std::atomic<std::uint64_t> first_not_begun_ = 0;  // relaxed: an old value only keeps a note for too long
  // Whether there are notes or suspended calls; changed under the mutex. Most calls have neither, and then nobody takes
  // the mutex. A note that another thread makes at this very moment may be missed, as if it had come later.
  std::atomic<bool> any_ = false;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Note> notes_;
  std::unordered_map<std::uint64_t, std::shared_ptr<SuspendedCall>> suspended_;
  bool over_ = false;
};

}  // namespace pharos::actors
