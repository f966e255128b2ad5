#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pharos::cluster {

/// A program that a test starts, in a process group of its own, with both its streams read here.
/// Owned by the test; one thread. The destructor kills the group.
class ChildProgram {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  explicit ChildProgram(const std::string& path, std::vector<std::string> arguments = {},
                        const Variables& variables = {});
  ChildProgram(ChildProgram&&) = delete;
  ~ChildProgram();

  pid_t pid() const { return pid_; }
  void kill(int signal) const;
  void kill_group(int signal) const;

  /// Its standard output is left in the pipe until it is wanted.
  void leave_output() { leaves_output_ = true; }

  /// The next line of its standard output, without the line's end. Throws when none comes in this time.
  std::string next_line(std::chrono::milliseconds within = std::chrono::seconds{15});
  /// The same, or none if none comes.
  std::optional<std::string> line_within(std::chrono::milliseconds time);

  /// True when its standard error holds that, or does in time.
  bool error_with(const std::string& part, std::chrono::milliseconds within = std::chrono::seconds{15});
  /// What it has written there so far.
  const std::string& error() const { return end_.error; }
  /// Asks it by SIGQUIT what it waits for, again and again while it may be about to wait, until the answer holds that.
  const std::string& error_after_quit_signal(const std::string& part);
  bool ended();

  struct End {
    int status = 0;  ///< as waitpid() gives it
    std::string output;
    std::string error;
  };
  /// Waits until it has ended and both streams with it. `output` is what next_line() has not given. Throws when that
  /// takes longer.
  End wait(std::chrono::milliseconds within = std::chrono::seconds{15});

 private:
  bool read_some(std::chrono::steady_clock::time_point until);

  pid_t pid_ = 0;
  int output_ = -1;
  int error_ = -1;
  bool leaves_output_ = false;
  End end_;
  bool reaped_ = false;
};

}  // namespace pharos::cluster
