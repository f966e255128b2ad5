#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include <pharos/async/deadline.hpp>
#include <pharos/async/unique_function.hpp>

#include "program/platform.hpp"
#include "results/callbacks.hpp"
#include "results/waiting_threads.hpp"

namespace pharos::detail {
class ResultCell;
}

namespace pharos::actors {

class LargeValues;

/// The place where a user's threads wait for results. The first thread that comes is the leader: it polls by itself, so
/// that the reply that it waits for reaches it without a hand-off between threads. Threads that come while another one
/// leads sleep on the word of their result. The thread that completes the result wakes them: the leader, or the
/// background thread.
/// Shared by a Caller and its results. Results may outlive their Runtime: after close() no thread leads, and threads
/// that wait only sleep. Any thread. Nothing here fails.
/// End: close() must come before the destructor and before the end of the platform.
class WaitingRoom {
 public:
  /// `flush` writes the calls that are queued; it is called before a thread sleeps. `cancel` gives up the call that
  /// brings a result. `large_values` is the store for large values that are made in this process.
  WaitingRoom(Platform& platform, async::Callback flush, async::UniqueFunction<void(detail::ResultCell&)> cancel,
              std::shared_ptr<LargeValues> large_values)
      : platform_{platform},
        sleepers_{platform.sleepers()},
        flush_{std::move(flush)},
        cancel_{std::move(cancel)},
        large_values_{std::move(large_values)} {}

  /// Returns when `word` holds kReady, at the deadline, or after abandon().
  void wait(std::atomic<std::uint32_t>& word, async::Deadline deadline);

  /// Sets `word` to kReady and wakes the threads that wait for it. Returns the marks that the word had.
  std::uint32_t complete(std::atomic<std::uint32_t>& word);

  /// Writes the calls that are queued, for a coroutine, which waits without sleeping here.
  void flush();

  const std::shared_ptr<LargeValues>& large_values() const { return large_values_; }
  /// Returns the list of threads and coroutines that wait here.
  WaitingThreads& threads() { return threads_; }

  /// Gives up the call that brings this result. Does nothing after close() or abandon().
  void cancel(detail::ResultCell& cell);

  /// Runs a user's callback, when its turn comes, on the thread for callbacks. After close() or abandon(), runs it at
  /// once on this thread.
  void call_back(async::Callback then);

  /// Runs the callbacks that were posted, as long as they take, and waits until no thread leads, flushes or cancels any
  /// more. Not to be called by a callback. Nothing touches the platform after this.
  void close();

  /// Called in a child of fork(): no result will ever be completed here, so wait() returns at once.
  void abandon() { abandoned_.store(true); }
  bool abandoned() const { return abandoned_.load(); }

  /// The states of a word: pending, perhaps with marks of the threads that wait for it, or ready.
  static constexpr std::uint32_t kPending = 0;
  static constexpr std::uint32_t kSleeper = 1;  // mark: a thread sleeps on it
  static constexpr std::uint32_t kLeader = 2;   // mark: the leader polls for it
  static constexpr std::uint32_t kReady = 4;
  static constexpr std::uint32_t kWatched = 8;  // mark: the result has watchers, which run when it is completed
  /// Adds a mark to the word. Returns false, without doing so, if the word is ready.
  static bool mark(std::atomic<std::uint32_t>& word, std::uint32_t mark);

 private:
  void lead(std::atomic<std::uint32_t>& word, async::Deadline deadline);
  void sleep(std::atomic<std::uint32_t>& word, async::Deadline deadline);

  Platform& platform_;  // not used after close()
  const std::shared_ptr<Sleepers> sleepers_;
  async::Callback flush_;
  async::UniqueFunction<void(detail::ResultCell&)> cancel_;
  const std::shared_ptr<LargeValues> large_values_;
  std::atomic<bool> closed_ = false;
  std::atomic<bool> abandoned_ = false;
  std::atomic<std::uint32_t> inside_ = 0;  // threads that may lead, flush or cancel
  std::atomic<bool> led_ = false;

  WaitingThreads threads_;
  std::mutex callbacks_mutex_;
  std::unique_ptr<Callbacks> callbacks_;  // made when first needed
};

}  // namespace pharos::actors
