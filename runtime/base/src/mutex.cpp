#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <pharos/base/mutex.hpp>

namespace pharos {

// A thread that has waited takes the mutex as kAwaited, because it cannot know whether others still sleep. At worst its
// unlock() wakes nobody. A mutex that is kLocked therefore has no sleepers, and unlock() need not enter the kernel.
void Mutex::lock_after_waiting() {
  while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
    ::syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kAwaited, nullptr, nullptr, 0);
  }
}

// The mutex may be locked again, or its memory be in other use, when this call reaches the kernel. Then a thread wakes
// for nothing, and looks again.
void Mutex::wake_one() {
  ::syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace pharos
