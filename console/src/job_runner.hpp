#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <pharos/pharos.hpp>

namespace pharos::console {

/// The name space of jobs: of their entries in the key-value store, and of the actors that run them.
inline constexpr const char* kJobs = "pharos.jobs";

/// What `pharos job submit` was given. A value, which travels.
struct JobDescription {
  std::string name;
  std::vector<std::string> command;
  std::vector<std::string> environment;  ///< "NAME=value", in addition to that of who has submitted it
  auto pharos_fields() { return std::tie(name, command, environment); }
};

/// What is known about a job: its entry in the key-value store, under its name. A value, which travels. Times are those
/// of the system's clock, in milliseconds; 0: not yet.
struct JobEntry {
  enum class State : std::uint8_t {
    kWaits,  ///< for resources
    kRuns,
    kEnded,  ///< the program has ended, or could not be started
  };
  friend constexpr bool pharos_valid(State value) { return value <= State::kEnded; }
  std::vector<std::string> command;
  State state = State::kWaits;
  std::int32_t status = 0;  ///< the exit code; 128 and the signal's number if a signal ended the program
  std::string why{};        ///< of a program that could not be started, or was ended: text for people
  NodeId node{};
  std::int64_t submitted = 0;
  std::int64_t started = 0;
  std::int64_t ended = 0;
  auto pharos_fields() { return std::tie(command, state, status, why, node, submitted, started, ended); }
};

/// The time now by the system's clock, in milliseconds.
std::int64_t system_ms();

/// The actor that runs a job's program on a node, as its child: a process of the cluster, so that it outlives whoever
/// has submitted it. What the program writes is in the actor's log. The program finds the cluster by PHAROS_ADDRESS.
/// Detached; ends with the program, and the program ends with it, at the latest when the actor's process is gone. The
/// methods run on the actor's strand; a thread of its own starts the program and waits for its end.
/// Failure: a program that cannot be started has ended, with the status 126 or 127, as in a shell. If the head is away,
/// the end of the program is noted when it is back. If this process or its node dies, the entry says kRuns for ever,
/// and nobody finds the actor.
class JobRunner {
 public:
  explicit JobRunner(const JobDescription& job);
  JobRunner(JobRunner&&) = delete;
  /// Ends the program if it still runs: SIGTERM, and after 10 s SIGKILL.
  ~JobRunner();

  /// Returns once the program was started, or could not be: the caller then finds the entry.
  void wait_until_started() const {}

 private:
  struct Program;
  std::unique_ptr<Program> program_;
};

}  // namespace pharos::console
