#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include <pharos/process/descendants.hpp>

namespace pharos::process {
namespace {

Error unreadable(const std::string& path, int why) {
  return Error::from_errno("reading " + path + " to find the processes below " + std::to_string(::getpid()), why,
                           "Look for them with ps, and end them by hand.");
}

/// Returns 0 if the process has ended or is hidden.
Result<pid_t> parent_of(const char* pid) {
  const std::string path = std::string{"/proc/"} + pid + "/stat";
  const std::unique_ptr<FILE, int (*)(FILE*)> file{std::fopen(path.c_str(), "re"), &std::fclose};
  if (file == nullptr && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) return unreadable(path, errno);
  if (file == nullptr) return 0;
  char text[512];
  const std::size_t size = std::fread(text, 1, sizeof text - 1, file.get());
  text[size] = '\0';
  // The process name, in parentheses, may contain any characters. After the last parenthesis come the state and the
  // parent's id.
  const char* const after_name = std::strrchr(text, ')');
  if (after_name == nullptr || std::strlen(after_name) < 4) return 0;
  return static_cast<pid_t>(std::strtol(after_name + 4, nullptr, 10));
}

Result<std::vector<pid_t>> find_descendants() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder{::opendir("/proc"), &::closedir};
  if (folder == nullptr) return unreadable("/proc", errno);
  std::unordered_multimap<pid_t, pid_t> children;
  while (const dirent* const entry = ::readdir(folder.get())) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
    PHAROS_TRY(const pid_t parent, parent_of(entry->d_name));
    if (parent != 0) children.emplace(parent, static_cast<pid_t>(std::atoi(entry->d_name)));
  }
  std::vector<pid_t> found;
  std::vector<pid_t> open{::getpid()};
  while (!open.empty()) {
    const auto [begin, end] = children.equal_range(open.back());
    open.pop_back();
    for (auto child = begin; child != end; ++child) {
      found.push_back(child->second);
      open.push_back(child->second);
    }
  }
  return found;
}

}  // namespace

void become_subreaper() {
  PHAROS_CHECK(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
}

std::vector<pid_t> descendants() {
  auto found = find_descendants();
  return found ? *std::move(found) : std::vector<pid_t>{};
}

Result<void> kill_descendants(async::Deadline deadline) {
  for (;;) {
    PHAROS_TRY(const std::vector<pid_t> found, find_descendants());
    if (found.empty()) return {};
    for (const pid_t pid : found) ::kill(pid, SIGKILL);
    // Children of dead processes have become children of this process, and are reaped here when they are dead.
    for (;;) {
      const pid_t reaped = ::waitpid(-1, nullptr, WNOHANG);
      if (reaped <= 0) break;
    }
    if (deadline.expired(std::chrono::steady_clock::now())) {
      return Error{ErrorCode::kDeadlineExceeded, std::to_string(found.size()) + " processes below " +
                                                     std::to_string(::getpid()) + " did not end after SIGKILL"};
    }
    // A killed process ends a moment later, and a process that is not a child of this one sends no notification.
    constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 1'000'000};
    if (!descendants().empty()) ::nanosleep(&kPause, nullptr);
  }
}

}  // namespace pharos::process
