#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// A head or a node in a child process, started as users start them. The constructor waits until the process has
/// printed `until`, and throws if the process ends before. The destructor ends the process by SIGTERM and waits for its
/// end.
class Program {
 public:
  Program(const std::vector<std::string>& words, const std::string& until) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error{"no pipe"};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    const int failed = ::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    output_ = ::fdopen(ends[0], "r");
    if (failed != 0) throw std::runtime_error{words[0] + " cannot be started"};
    char line[1024];
    while (said_.find(until) == std::string::npos && std::fgets(line, sizeof line, output_) != nullptr) said_ += line;
    if (said_.find(until) != std::string::npos) return;
    end(SIGTERM);
    throw std::runtime_error{words[0] + " has ended before it said \"" + until + '"'};
  }
  Program(Program&&) = delete;
  ~Program() { end(SIGTERM); }
  /// Kills the process by SIGKILL. The processes below it end with it.
  void kill() { end(SIGKILL); }
  pid_t pid() const { return pid_; }
  /// Waits for the end of the process, and returns its exit code; -1 if a signal ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// Returns the text behind these words, up to the end of the line or a semicolon. Throws if the process had not
  /// printed the words when the constructor returned.
  std::string word_behind(const std::string& words) const {
    const std::size_t begin = said_.find(words);
    if (begin == std::string::npos) throw std::runtime_error{"no \"" + words + "\" was said"};
    const std::size_t end = said_.find_first_of(";\n", begin);
    return said_.substr(begin + words.size(), end - begin - words.size());
  }

 private:
  void end(int signal) {
    if (pid_ < 0) return;
    ::kill(pid_, signal);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
    std::fclose(output_);
  }

  pid_t pid_ = -1;
  std::FILE* output_ = nullptr;
  std::string said_;
};

}  // namespace bench
