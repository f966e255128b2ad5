// Preloaded into a process whose clock is to be an hour fast.

#include <dlfcn.h>
#include <time.h>

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock, timespec* time) noexcept {
  using Real = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Real>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int status = real(clock, time);
  if (status == 0 && clock == CLOCK_REALTIME) time->tv_sec += 3600;
  return status;
}
