#include "job_runner.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <pharos/base/fd.hpp>
#include <pharos/base/log.hpp>

namespace pharos::console {
namespace {

using namespace std::chrono_literals;

constexpr int kNotExecutable = 126;
constexpr int kNoSuchProgram = 127;
constexpr auto kTermTime = 10s;

/// In the child: becomes the program. If that fails, writes errno to `failed`, and ends.
[[noreturn]] void become(char* const* command, char* const* environment, int failed) {
  // The program ends with the thread that has started it, and so with this process, however it ends.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  ::setpgid(0, 0);
  ::execvpe(command[0], command, environment);
  const int why = errno;
  [[maybe_unused]] const auto written = ::write(failed, &why, sizeof why);
  ::_exit(kNoSuchProgram);
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string name_of_signal(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string{"SIG"} + name;
}

/// The environment of this process, with the job's variables and the cluster's address.
std::vector<std::string> environment_of(const JobDescription& job, const std::string& address) {
  std::vector<std::string> own = job.environment;
  own.push_back("PHAROS_ADDRESS=" + address);
  own.push_back("PHAROS_JOB=" + job.name);
  const auto is_replaced = [&](const std::string& variable) {
    const std::string name = variable.substr(0, variable.find('=') + 1);
    for (const std::string& each : own) {
      if (each.starts_with(name)) return true;
    }
    return variable.starts_with("PHAROS_TOKEN_FILE=");  // the token is beside the socket of this node
  };
  std::vector<std::string> all = own;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!is_replaced(*variable)) all.emplace_back(*variable);
  }
  return all;
}

}  // namespace

std::int64_t system_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

struct JobRunner::Program {
  std::mutex mutex;
  std::condition_variable changed;
  pid_t pid = 0;  // 0 before the start and after the end
  bool started = false;
  bool ended = false;
  bool stopped = false;  // the actor ends
  std::thread waits;

  void run(const JobDescription& job);
  void run(const JobDescription& job, Runtime& runtime);
  JobEntry start(const JobDescription& job, Runtime& runtime);
  static void note(Runtime& runtime, const std::string& name, const JobEntry& entry);
};

JobRunner::JobRunner(const JobDescription& job) : program_{std::make_unique<Program>()} {
  program_->waits = std::thread{[program = program_.get(), job] { program->run(job); }};
  std::unique_lock lock{program_->mutex};
  program_->changed.wait(lock, [this] { return program_->started; });
}

JobRunner::~JobRunner() {
  {
    std::unique_lock lock{program_->mutex};
    program_->stopped = true;
    if (program_->pid != 0) ::kill(-program_->pid, SIGTERM);
    if (!program_->changed.wait_for(lock, kTermTime, [this] { return program_->ended; }) && program_->pid != 0) {
      ::kill(-program_->pid, SIGKILL);
    }
  }
  program_->waits.join();
}

/// Starts the program. The returned entry has ended if that was not possible.
JobEntry JobRunner::Program::start(const JobDescription& job, Runtime& runtime) {
  JobEntry entry = runtime.kv(kJobs).get<JobEntry>(job.name).value_or(JobEntry{.command = job.command});
  entry.node = context().node;
  entry.started = system_ms();
  entry.state = JobEntry::State::kRuns;
  const auto refuse = [&entry](int status, const std::string& why) {
    entry.state = JobEntry::State::kEnded;
    entry.status = status;
    entry.why = why;
    entry.ended = entry.started;
    return entry;
  };
  std::vector<std::string> command = job.command;
  std::vector<std::string> environment = environment_of(job, runtime.address());
  const auto words = pointers_to(command);
  const auto variables = pointers_to(environment);
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return refuse(kNotExecutable, std::string{"no pipe: "} + std::strerror(errno));
  const Fd read_end{pipe[0]};
  Fd write_end{pipe[1]};
  const pid_t child = ::fork();
  if (child == 0) become(words.data(), variables.data(), write_end.get());
  if (child < 0) return refuse(kNotExecutable, std::string{"no process: "} + std::strerror(errno));
  write_end.reset();
  int why = 0;
  if (::read(read_end.get(), &why, sizeof why) == sizeof why) {
    ::waitpid(child, nullptr, 0);
    return refuse(why == ENOENT ? kNoSuchProgram : kNotExecutable, job.command.front() + ": " + std::strerror(why));
  }
  const std::lock_guard lock{mutex};
  pid = child;
  return entry;
}

/// Writes the entry, as long as there is a cluster.
void JobRunner::Program::note(Runtime& runtime, const std::string& name, const JobEntry& entry) {
  try {
    runtime.kv(kJobs).put(name, entry);
  } catch (const Exception& error) {
    log(LogLevel::kError, "the state of a job cannot be noted", {kv("job", name), kv("why", error.what())});
  }
}

// The cluster may end at any time; then this process ends, too.
void JobRunner::Program::run(const JobDescription& job) {
  try {
    Runtime runtime;
    run(job, runtime);
  } catch (const Exception& error) {
    log(LogLevel::kError, "a job cannot be run", {kv("job", job.name), kv("why", error.what())});
    const std::lock_guard lock{mutex};
    started = ended = true;
    changed.notify_all();
  }
}

void JobRunner::Program::run(const JobDescription& job, Runtime& runtime) {
  JobEntry entry = start(job, runtime);
  note(runtime, job.name, entry);
  {
    const std::lock_guard lock{mutex};
    started = true;
  }
  changed.notify_all();
  if (entry.state == JobEntry::State::kRuns) {
    int status = 0;
    siginfo_t end{};
    // The process is only looked at here, so that its number stays its own until nobody sends it a signal any more.
    while (::waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    {
      const std::lock_guard lock{mutex};
      ::waitpid(std::exchange(pid, 0), &status, 0);
      entry.why = stopped ? "it was stopped" : "";
    }
    entry.state = JobEntry::State::kEnded;
    entry.ended = system_ms();
    entry.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (WIFSIGNALED(status) && entry.why.empty()) entry.why = "killed by " + name_of_signal(WTERMSIG(status));
    note(runtime, job.name, entry);
  }
  bool is_last = false;
  {
    const std::lock_guard lock{mutex};
    ended = true;
    is_last = !stopped;
  }
  changed.notify_all();
  if (is_last) runtime.actor<JobRunner>(job.name, kJobs).stop();
}

}  // namespace pharos::console
