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
  shared_.rung.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &shared_.rung, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Bell::sleep(std::uint32_t seen, Duration most) {
  static_assert(sizeof shared_.rung == sizeof(std::uint32_t));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
  const timespec time{seconds.count(), (most - seconds).count()};
  ::syscall(SYS_futex, &shared_.rung, FUTEX_WAIT, seen, &time, nullptr, 0);
}

}  // namespace pharos::ml
