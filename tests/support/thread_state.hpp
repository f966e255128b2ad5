#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace pharos {

/// Returns whether this thread of this process sleeps in the kernel, as a thread does that waits for something.
inline bool thread_sleeps(pid_t thread) {
  std::ifstream file{"/proc/self/task/" + std::to_string(thread) + "/stat"};
  std::string stat;
  std::getline(file, stat);
  const std::size_t close = stat.rfind(')');  // "1234 (name) S …"
  return close != std::string::npos && close + 2 < stat.size() && stat[close + 2] == 'S';
}

/// Returns whether the kernel has taken this thread of this process away, which it does a moment after join().
inline bool thread_is_gone(pid_t thread) {
  return !std::filesystem::exists("/proc/self/task/" + std::to_string(thread));
}

}  // namespace pharos
