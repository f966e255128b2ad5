#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include <pharos/async/deadline.hpp>
#include <pharos/async/unique_function.hpp>

#include "callbacks.hpp"
#include "platform.hpp"
#include "waiting_threads.hpp"

namespace pharos::detail {
class ResultCell;
}

namespace pharos::actors {

class LargeValues;

/// Where a user's threads wait for results. The first one that comes leads: it reads by itself, so that the reply it
/// waits for reaches it without a hand-off. Those that come while it leads sleep on their result's word, and are woken
/// by whoever completes it: the leader, or the background thread. Results may outlive their Runtime: from close() on
/// nobody leads here, and whoever waits sleeps.
class WaitingRoom {
 public:
  /// `flush` sends what calls have queued; called before anybody sleeps. `cancel` gives up the call that a result waits
  /// for. `large_values`: where those go that are made here.
  WaitingRoom(Platform& platform, async::Callback flush, async::UniqueFunction<void(detail::ResultCell&)> cancel,
              std::shared_ptr<LargeValues> large_values)
      : platform_{platform},
        sleepers_{platform.sleepers()},
        flush_{std::move(flush)},
        cancel_{std::move(cancel)},
        large_values_{std::move(large_values)} {}

  /// Returns when `word` holds kReady, or at the deadline.
  void wait(std::atomic<std::uint32_t>& word, async::Deadline deadline);

  /// Sets `word` to kReady and wakes who waits for it. The marks that were there.
  std::uint32_t complete(std::atomic<std::uint32_t>& word);

  /// What calls have queued is written, for whoever will wait without sleeping here.
  void flush();

  const std::shared_ptr<LargeValues>& large_values() const { return large_values_; }
  /// Who waits here.
  WaitingThreads& threads() { return threads_; }

  /// Gives up the call that this waits for.
  void cancel(detail::ResultCell& cell);

  /// Runs a user's callback, in turn, on a thread that is there for them; where there is no Runtime any more, here.
  void call_back(async::Callback then);

  /// From now on nobody leads here, flushes or cancels, or touches the platform.
  void close();

  /// In a child of fork(): nobody will ever complete anything here, so nobody waits.
  void abandon() { abandoned_.store(true); }
  bool abandoned() const { return abandoned_.load(); }

  /// A word is pending, perhaps with marks of who waits for it, or ready.
  static constexpr std::uint32_t kPending = 0;
  static constexpr std::uint32_t kSleeper = 1;  // mark: somebody sleeps on it
  static constexpr std::uint32_t kLeader = 2;   // mark: the leader polls for it
  static constexpr std::uint32_t kReady = 4;
  static constexpr std::uint32_t kWatched = 8;  // mark: whoever completes it has more to do than wake waiters
  /// False when the word is ready.
  static bool mark(std::atomic<std::uint32_t>& word, std::uint32_t mark);

 private:
  void lead(std::atomic<std::uint32_t>& word, async::Deadline deadline);
  void sleep(std::atomic<std::uint32_t>& word, async::Deadline deadline);

  Platform& platform_;  // until close()
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
