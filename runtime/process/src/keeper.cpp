#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include <pharos/base/check.hpp>
#include <pharos/base/log.hpp>
#include <pharos/process/descendants.hpp>
#include <pharos/process/failpoints.hpp>
#include <pharos/process/keeper.hpp>
#include <pharos/process/limits.hpp>
#include <pharos/process/run_folder.hpp>

namespace pharos::process {
namespace {

using namespace std::chrono_literals;

constexpr auto kKillDeadline = 8s;

// People and init systems know the process id of the keeper and send their signals there. The keeper passes them on to
// the daemon.
volatile pid_t daemon_to_tell = 0;
volatile sig_atomic_t told_to_end = 0;
void tell_daemon(int) {
  told_to_end = 1;
  if (daemon_to_tell > 0) ::kill(daemon_to_tell, SIGTERM);
}

sigset_t ending_signals() {
  sigset_t all;
  ::sigemptyset(&all);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&all, signal);
  return all;
}
void on_ending_signals(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  for (const int signal : {SIGTERM, SIGINT}) ::sigaction(signal, &action, nullptr);
  if (!ignores(SIGHUP)) ::sigaction(SIGHUP, &action, nullptr);  // under nohup a hangup ends nothing
}

// Returns the daemon's exit status. Orphans of the run have become children of the keeper, and are reaped here too.
int wait_for(pid_t daemon) {
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended == daemon) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    PHAROS_CHECK(ended > 0 || errno == EINTR, errno);
  }
}

}  // namespace

int run_keeper(const std::string& base_folder, async::UniqueFunction<int(Kept)> daemon) {
  // The signals are blocked until the daemon's process id is stored: the process that started the keeper may send a
  // signal as soon as the daemon exists, which may be earlier.
  const sigset_t ending = ending_signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &ending, &before);
  if (told_to_end != 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return 0;
  }
  become_subreaper();
  const std::string run_folder = new_run_folder_name(base_folder);
  int alive[2];
  PHAROS_CHECK(::pipe2(alive, O_CLOEXEC) == 0, errno);
  const pid_t pid = ::fork();
  PHAROS_CHECK(pid >= 0, errno);
  if (pid == 0) {
    on_ending_signals(SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::close(alive[1]);
    become_subreaper();
    ::_exit(daemon(Kept{run_folder, Fd{alive[0]}}));
  }
  failpoint(failpoints::kDaemonForked);
  ::prctl(PR_SET_NAME, "pharos-keeper");
  daemon_to_tell = pid;
  on_ending_signals(&tell_daemon);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  // The keeper closes all descriptors but its end of the pipe, because the daemon's connections must end with the
  // daemon.
  ::close_range(3, static_cast<unsigned>(alive[1]) - 1, 0);
  ::close_range(static_cast<unsigned>(alive[1]) + 1, ~0U, 0);
  const int status = wait_for(pid);
  daemon_to_tell = 0;
  if (auto killed = kill_descendants(async::Deadline::after(kKillDeadline, std::chrono::steady_clock::now()));
      !killed) {
    log(LogLevel::kError, "some processes could not be killed", {kv("error", killed.error())});
  }
  remove_run_folder(run_folder);
  // A daemon that has not begun yet dies of the signal that the keeper has passed on. That is the end that was asked
  // for.
  return told_to_end != 0 && status == 128 + SIGTERM ? 0 : status;
}

}  // namespace pharos::process
