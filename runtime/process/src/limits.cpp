#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <pharos/base/fd.hpp>
#include <pharos/process/limits.hpp>

namespace pharos::process {

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void offer_to_out_of_memory_killer() {
  const Fd file{::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)};
  // If the write is not allowed, the kernel chooses by size alone, as it does by default.
  if (file) [[maybe_unused]]
    const auto n = ::write(file.get(), "500", 3);
}

bool ignores(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void reset_signals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGCHLD, SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_DFL);
}

}  // namespace pharos::process
