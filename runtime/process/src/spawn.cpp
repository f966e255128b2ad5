#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include <pharos/process/spawn.hpp>

extern char** environ;

namespace pharos::process {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// All data that the child uses. It is prepared before the child exists, because the child shares this process's memory
// and may only make system calls.
struct Child {
  const char* path;
  int executable;
  char** arguments;
  char** environment;
  const std::pair<int, int>* moved;
  std::size_t moved_count;
  int lowest_free;  // larger than every descriptor number that the new process keeps
  const char* folder;
  bool new_session;
  int* failed_with;  // in memory that both processes share
};

// Sanitizers keep records of each thread in memory. A child that shares the memory and never returns would corrupt
// these records, so with a sanitizer the child gets a copy of the memory.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kBorrow = 0;
#else
constexpr int kBorrow = CLONE_VM;
#endif

int run_child(void* argument) {
  auto& child = *static_cast<Child*>(argument);
  const auto fail = [&child] {
    *child.failed_with = errno;
    ::_exit(127);
  };
  if (child.new_session) ::setsid();
  if (child.folder != nullptr && ::chdir(child.folder) != 0) fail();
  // All descriptors are first duplicated to high numbers, so that no dup2() overwrites a descriptor that is needed
  // later.
  int executable = child.executable;
  if (executable >= 0) {
    executable = ::fcntl(executable, F_DUPFD_CLOEXEC, child.lowest_free);
    if (executable < 0) fail();
  }
  int away[16];
  for (std::size_t i = 0; i < child.moved_count; ++i) {
    away[i] = ::fcntl(child.moved[i].first, F_DUPFD_CLOEXEC, child.lowest_free);
    if (away[i] < 0) fail();
  }
  for (std::size_t i = 0; i < child.moved_count; ++i) {
    if (::dup2(away[i], child.moved[i].second) < 0) fail();
  }
  ::close_range(static_cast<unsigned>(child.lowest_free), ~0U, CLOSE_RANGE_CLOEXEC);
  for (int fd = 3; fd < child.lowest_free; ++fd) {
    const bool wanted =
        std::any_of(child.moved, child.moved + child.moved_count, [fd](const auto& move) { return move.second == fd; });
    if (!wanted) ::close(fd);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) ::signal(signal, SIG_DFL);
  if (executable >= 0) {
    ::syscall(SYS_execveat, executable, "", child.arguments, child.environment, AT_EMPTY_PATH);
  } else {
    ::execve(child.path, child.arguments, child.environment);
  }
  fail();
  return 127;
}

Error not_started(const Program& program, int why) {
  Error failed = Error::from_errno("starting " + program.path, why);
  errno = why;
  return failed;
}

}  // namespace

std::vector<std::string> own_environment() {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) result.emplace_back(*entry);
  return result;
}

Result<pid_t> spawn(const Program& program) {
  PHAROS_CHECK(program.moved.size() <= 16, program.moved.size());
  std::vector<char*> arguments = pointers(program.arguments);
  std::vector<char*> environment = pointers(program.environment);
  int lowest_free = 3;
  for (const auto& [from, to] : program.moved) lowest_free = std::max(lowest_free, to + 1);
  Child child{.path = program.path.c_str(),
              .executable = program.executable ? program.executable.get() : -1,
              .arguments = arguments.data(),
              .environment = environment.data(),
              .moved = program.moved.data(),
              .moved_count = program.moved.size(),
              .lowest_free = lowest_free,
              .folder = program.folder.empty() ? nullptr : program.folder.c_str(),
              .new_session = program.new_session,
              .failed_with = nullptr};

  // This works like posix_spawn, which cannot execute a program by descriptor. The child shares this process's memory
  // until it executes, so that no page tables are copied, even for a large process. Signals are blocked meanwhile,
  // because no handler may run in the child.
  constexpr std::size_t kStackBytes = 64 << 10;
  void* const stack =
      ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return not_started(program, errno);
  // At the low end of the mapping; the child's stack begins at the high end.
  child.failed_with = new (stack) int{0};
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t pid =
      ::clone(&run_child, static_cast<char*>(stack) + kStackBytes, kBorrow | CLONE_VFORK | SIGCHLD, &child);
  const int why = errno;
  const int failed_with = *child.failed_with;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::munmap(stack, kStackBytes);
  if (pid < 0) return not_started(program, why);
  if (failed_with != 0) {
    ::waitpid(pid, nullptr, 0);
    return not_started(program, failed_with);
  }
  return pid;
}

}  // namespace pharos::process
