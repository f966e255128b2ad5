#include "child_program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace pharos::cluster {
namespace {

// Reads once, and closes the descriptor and sets it to -1 at the end of the stream.
void drain(int& fd, std::string& into) {
  char buffer[16 << 10];
  const ssize_t n = ::read(fd, buffer, sizeof buffer);
  if (n > 0) {
    into.append(buffer, static_cast<std::size_t>(n));
  } else {
    ::close(fd);
    fd = -1;
  }
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (auto& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_with(const ChildProgram::Variables& variables) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const bool replaced = std::any_of(variables.begin(), variables.end(),
                                      [&](const auto& variable) { return text.starts_with(variable.first + "="); });
    if (!replaced) result.push_back(text);
  }
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

constexpr std::chrono::seconds kGroupEndsWithin{5};

// Returns whether the process group has a process that is no zombie. kill(-group, 0) would also find zombies, and who
// reaps those of a group is not known here.
bool group_lives(pid_t group) {
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator{"/proc", error};
       !error && it != std::filesystem::directory_iterator{}; it.increment(error)) {
    std::string stat;
    std::ifstream file{it->path() / "stat"};
    std::getline(file, stat);
    const std::size_t close = stat.rfind(')');  // "1234 (name) S 1 1234 …": state, parent, group
    if (close == std::string::npos) continue;
    std::istringstream rest{stat.substr(close + 1)};
    char state = '?';
    pid_t parent = 0;
    pid_t its_group = 0;
    if (rest >> state >> parent >> its_group && its_group == group && state != 'Z' && state != 'X') return true;
  }
  return false;
}

}  // namespace

ChildProgram::ChildProgram(const std::string& path, std::vector<std::string> arguments, const Variables& variables) {
  int output[2];
  int error[2];
  if (::pipe2(output, O_CLOEXEC) != 0 || ::pipe2(error, O_CLOEXEC) != 0) throw std::runtime_error{"no pipe"};
  output_ = output[0];
  error_ = error[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, error[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  arguments.insert(arguments.begin(), path);
  std::vector<std::string> environment = environment_with(variables);
  const int failed = ::posix_spawn(&pid_, path.c_str(), &actions, &attributes, pointers(arguments).data(),
                                   pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ::close(output[1]);
  ::close(error[1]);
  if (failed != 0) throw std::runtime_error{"starting " + path + " failed"};
}

ChildProgram::~ChildProgram() {
  if (!reaped_) {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    // The others of the group are dying, too. A census that is taken next must not find them.
    const auto until = std::chrono::steady_clock::now() + kGroupEndsWithin;
    while (group_lives(pid_) && std::chrono::steady_clock::now() < until) ::poll(nullptr, 0, 1);
  }
  if (output_ >= 0) ::close(output_);
  if (error_ >= 0) ::close(error_);
}

void ChildProgram::kill(int signal) const {
  ::kill(pid_, signal);
}
void ChildProgram::kill_group(int signal) const {
  ::kill(-pid_, signal);
}

// Returns false if the time has passed.
bool ChildProgram::read_some(std::chrono::steady_clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  if (left.count() <= 0) return false;
  pollfd both[] = {{.fd = leaves_output_ ? -1 : output_, .events = POLLIN, .revents = 0},
                   {.fd = error_, .events = POLLIN, .revents = 0}};
  ::poll(both, 2, static_cast<int>(left.count()));
  if (both[0].revents != 0) drain(output_, end_.output);
  if (both[1].revents != 0) drain(error_, end_.error);
  return true;
}

std::string ChildProgram::next_line(std::chrono::milliseconds within) {
  if (auto line = line_within(within)) return *std::move(line);
  throw std::runtime_error{"the program wrote no line; its standard error: " + end_.error};
}

std::optional<std::string> ChildProgram::line_within(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  leaves_output_ = false;
  for (;;) {
    const std::size_t end = end_.output.find('\n');
    if (end != std::string::npos) {
      std::string line = end_.output.substr(0, end);
      end_.output.erase(0, end + 1);
      return line;
    }
    if (output_ < 0 || !read_some(until)) return std::nullopt;
  }
}

bool ChildProgram::error_with(const std::string& part, std::chrono::milliseconds within) {
  const auto until = std::chrono::steady_clock::now() + within;
  while (end_.error.find(part) == std::string::npos) {
    if (error_ < 0 || !read_some(until)) return false;
  }
  return true;
}

const std::string& ChildProgram::error_after_quit_signal(const std::string& part) {
  constexpr int kQuestions = 5;
  constexpr std::chrono::milliseconds kPause{1500};  // two SIGQUITs within a second would end the program
  for (int i = 0; i < kQuestions; ++i) {
    kill(SIGQUIT);
    if (error_with(part, kPause)) break;
  }
  return error();
}

bool ChildProgram::ended() {
  return reaped_ || (reaped_ = ::waitpid(pid_, &end_.status, WNOHANG) == pid_);
}

ChildProgram::End ChildProgram::wait(std::chrono::milliseconds within) {
  const auto until = std::chrono::steady_clock::now() + within;
  leaves_output_ = false;
  while (output_ >= 0 || error_ >= 0) {
    if (!read_some(until)) {
      throw std::runtime_error{"the program's streams stay open; it wrote: " + end_.output + end_.error};
    }
  }
  while (!ended()) {
    if (std::chrono::steady_clock::now() >= until) {
      throw std::runtime_error{"the program did not end; it wrote: " + end_.output + end_.error};
    }
    ::poll(nullptr, 0, 1);
  }
  return std::exchange(end_, {});
}

std::chrono::milliseconds time_until_ready(const std::string& path, const std::vector<std::string>& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  ChildProgram program{path, arguments};
  while (program.next_line() != "ready") {
  }
  const auto time = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  program.kill(SIGKILL);
  program.wait();
  return time;
}

}  // namespace pharos::cluster
