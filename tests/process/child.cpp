// Prints how it was started: arguments, environment, folder, session, descriptors and signals, one line for each.

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

extern char** environ;

int main(int argc, char** argv) {
  for (int i = 0; i < argc; ++i) std::printf("argument %s\n", argv[i]);
  for (char** entry = environ; *entry != nullptr; ++entry) std::printf("environment %s\n", *entry);
  char folder[4096];
  std::printf("folder %s\n", ::getcwd(folder, sizeof folder));
  std::printf("leads its session %s\n", ::getsid(0) == ::getpid() ? "yes" : "no");

  std::vector<int> open;
  DIR* const descriptors = ::opendir("/proc/self/fd");
  while (const dirent* const entry = ::readdir(descriptors)) {
    if (entry->d_name[0] != '.') open.push_back(std::atoi(entry->d_name));
  }
  std::erase(open, ::dirfd(descriptors));
  ::closedir(descriptors);
  std::sort(open.begin(), open.end());
  for (const int fd : open) {
    char target[4096] = {};
    const std::size_t size = sizeof target - 1;
    if (::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, size) < 0) continue;
    std::printf("descriptor %d %s\n", fd, target);
  }

  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
  for (const int signal : {SIGPIPE, SIGTERM, SIGCHLD, SIGUSR1}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (::sigismember(&blocked, signal) == 1) std::printf("blocked %d\n", signal);
    if (signal != SIGUSR1 && action.sa_handler != SIG_DFL) std::printf("ignored %d\n", signal);
  }
}
