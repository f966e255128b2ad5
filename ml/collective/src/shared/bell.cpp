#include "shared/bell.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace pharos::ml {

Bell::Bell(Shared& shared, std::uint32_t ranks) : shared_{shared} {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) == 0) {
    may_spin_ = ranks <= static_cast<std::uint32_t>(CPU_COUNT(&cpus));
  }
}

void Bell::ring() {
  if (!has_sleepers()) return;
  shared_.rung_on.store(::sched_getcpu() + 1, std::memory_order_relaxed);
  shared_.rung.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &shared_.rung, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Bell::sleep(std::uint32_t seen, Duration most) {
  static_assert(sizeof shared_.rung == sizeof(std::uint32_t));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
  const timespec time{seconds.count(), (most - seconds).count()};
  const bool was_woken = ::syscall(SYS_futex, &shared_.rung, FUTEX_WAIT, seen, &time, nullptr, 0) == 0;
  if (was_woken && may_spin_) leave_cpu_of_ringer();
}

// The kernel likes to wake a thread on the CPU of the one that wakes it. While the other CPUs have something to do, be
// it of the lowest priority, it leaves both there. Then they never find each other by spinning, and each wait costs two
// switches between them.
void Bell::leave_cpu_of_ringer() {
  const int here = ::sched_getcpu();
  if (here < 0 || shared_.rung_on.load(std::memory_order_relaxed) != here + 1) return;
  const TimePoint now = std::chrono::steady_clock::now();
  if (now - moved_ < kMoveTime) return;
  moved_ = now;
  cpu_set_t may;
  if (::sched_getaffinity(0, sizeof may, &may) != 0) return;
  cpu_set_t others = may;
  CPU_CLR(here, &others);
  if (CPU_COUNT(&others) != 0 && ::sched_setaffinity(0, sizeof others, &others) == 0) {
    ::sched_setaffinity(0, sizeof may, &may);
  }
}

}  // namespace pharos::ml
