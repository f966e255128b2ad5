#pragma once

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <vector>

namespace pharos::cluster {

/// A program that runs on a terminal, as if a shell had started it. It has a session of its own, and the test holds the
/// other end of its terminal.
struct OnTerminal {
  OnTerminal(const std::string& program, const std::vector<std::string>& arguments) {
    std::vector<char*> words{const_cast<char*>(program.c_str())};
    for (const std::string& each : arguments) words.push_back(const_cast<char*>(each.c_str()));
    words.push_back(nullptr);
    pid = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (pid == 0) {
      ::execv(program.c_str(), words.data());
      ::_exit(127);
    }
  }
  OnTerminal(OnTerminal&&) = delete;
  ~OnTerminal() { ::close(terminal); }

  void read_until(const std::string& text) {
    while (seen.find(text) == std::string::npos) ASSERT_TRUE(read_more()) << seen;
  }
  /// Reads into `seen` until the program has ended. Returns its status, as waitpid() gives it.
  int read_all() {
    while (read_more()) {
    }
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return status;
  }

  int terminal = -1;
  pid_t pid = 0;
  std::string seen;

 private:
  bool read_more() {
    char buffer[4096];
    const ssize_t n = ::read(terminal, buffer, sizeof buffer);  // fails once no process has the terminal open
    if (n > 0) seen.append(buffer, static_cast<std::size_t>(n));
    return n > 0;
  }
};

}  // namespace pharos::cluster
