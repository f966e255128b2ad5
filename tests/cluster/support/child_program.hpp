#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pharos::cluster {

/// A program that a test starts in a process group of its own. This object reads its standard output and standard
/// error. The test owns the object and uses it from one thread. The destructor kills the process group and waits
/// until no process of it is left, unless the program has been found to have ended: wait() and ended() leave what a
/// program started to the test's census.
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

  /// Leaves the program's standard output in the pipe until a line of it, or the program's end, is asked for.
  void leave_output() { leaves_output_ = true; }

  /// The next line of the program's standard output, without the newline. Throws if no line comes in this time.
  std::string next_line(std::chrono::milliseconds within = std::chrono::seconds{15});
  /// Like next_line(), but returns nullopt if no line comes in this time.
  std::optional<std::string> line_within(std::chrono::milliseconds time);

  /// Waits until the program's standard error contains `part`. Returns false if it does not in this time.
  bool error_with(const std::string& part, std::chrono::milliseconds within = std::chrono::seconds{15});
  /// The standard error that was read so far.
  const std::string& error() const { return end_.error; }
  /// Sends SIGQUIT, upon which the program writes what it waits for, and repeats the signal a few times until the
  /// answer contains `part`: the program may not wait yet when the first signal comes. Returns error().
  const std::string& error_after_quit_signal(const std::string& part);
  bool ended();

  struct End {
    int status = 0;  ///< as waitpid() returns it
    std::string output;
    std::string error;
  };
  /// Waits until the program has ended and both streams are closed; throws if that takes longer than `within`. `output`
  /// is the part of the standard output that next_line() has not returned.
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

/// Returns how long the program takes until it prints "ready", and kills it. By this time, tests choose the moments at
/// which they kill programs that start, so that the moments also suit a slow machine.
std::chrono::milliseconds time_until_ready(const std::string& path, const std::vector<std::string>& arguments);

}  // namespace pharos::cluster
