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

/// A program as a shell starts it: in a session of its own, whose terminal the test holds.
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
  /// What it has shown until it ended; returns its status.
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
    const ssize_t n = ::read(terminal, buffer, sizeof buffer);  // fails once nobody has the other end
    if (n > 0) seen.append(buffer, static_cast<std::size_t>(n));
    return n > 0;
  }
};

}  // namespace pharos::cluster
