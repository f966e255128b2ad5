#include <algorithm>

#include <pharos/base/thread_local.hpp>
#include <pharos/net/spin_turns.hpp>

namespace pharos::net {
namespace {

// The address of this variable identifies the thread.
PHAROS_THREAD_LOCAL const char this_thread = 0;

}  // namespace

bool SpinTurns::is_hot() const {
  return hot_thread_.load(std::memory_order_relaxed) == &this_thread;
}

bool SpinTurns::keeps_others_out(TimePoint now) const {
  const TimePoint since = in_callback_since_.load(std::memory_order_relaxed);
  const bool held_up = since != TimePoint::max() && now - since > kTakeOverTime;
  return !held_up && now <= hot_until_.load(std::memory_order_relaxed);
}

bool SpinTurns::begin() {
  if (const std::uint32_t skip = to_skip_.load(std::memory_order_relaxed); skip != 0) {
    to_skip_.store(skip - 1, std::memory_order_relaxed);
    return false;
  }
  hot_thread_.store(&this_thread, std::memory_order_relaxed);
  return true;
}

void SpinTurns::found(TimePoint now) {
  failed_.store(0, std::memory_order_relaxed);
  hot_until_.store(now + kHotTime, std::memory_order_relaxed);
}

void SpinTurns::found_nothing() {
  const std::uint32_t failed = std::min(failed_.load(std::memory_order_relaxed) + 1, kFailedMax);
  failed_.store(failed, std::memory_order_relaxed);
  to_skip_.store((1U << failed) - 1, std::memory_order_relaxed);
}

void SpinTurns::begin_callback(TimePoint now) {
  in_callback_since_.store(now, std::memory_order_relaxed);
}

void SpinTurns::end_callback() {
  in_callback_since_.store(TimePoint::max(), std::memory_order_relaxed);
}

}  // namespace pharos::net
