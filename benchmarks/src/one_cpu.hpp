#pragma once

#include <sched.h>

#include <cstdio>
#include <cstdlib>

namespace bench {

/// Keeps this thread, and the processes that it forks, on one of its CPUs as long as this object lives.
class OneCpu {
 public:
  OneCpu() {
    if (::sched_getaffinity(0, sizeof before_, &before_) != 0) fail("sched_getaffinity");
    int cpu = 0;
    while (!CPU_ISSET(cpu, &before_)) ++cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) fail("sched_setaffinity");
  }
  OneCpu(OneCpu&&) = delete;
  ~OneCpu() { ::sched_setaffinity(0, sizeof before_, &before_); }

 private:
  static void fail(const char* what) {
    std::perror(what);
    std::exit(1);
  }

  cpu_set_t before_;
};

}  // namespace bench
