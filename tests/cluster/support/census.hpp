#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace pharos::cluster {

/// The role of a process in a run. kOther is a program that the test or a worker has started.
enum class Part { kKeeper, kNode, kZygote, kWorker, kOther };

struct FoundProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = '?';  ///< as in /proc/PID/stat: Z is a zombie
  Part part = Part::kOther;
  std::string name;
  std::string command;

  std::string to_string() const;
};

/// Finds everything that one run leaves on a machine: processes, files, sockets, shared memory, cgroups.
/// The constructor sets two environment variables of this process, which later children inherit, even across setsid()
/// and double forks: a mark of the run, and PHAROS_FOLDER, which is a folder that only this run uses. A process has one
/// Census at a time and uses it from one thread. The destructor removes the folder; it does not end any process.
class Census {
 public:
  /// `path_bytes` is the least length of the folder's path.
  explicit Census(std::size_t path_bytes = 0);
  Census(Census&&) = delete;
  ~Census();

  /// The value of PHAROS_FOLDER.
  const std::filesystem::path& folder() const { return folder_; }

  /// Every process of the run except this one. Descendants of this process count even if they do not have the mark.
  std::vector<FoundProcess> processes() const;
  std::vector<FoundProcess> processes(Part part) const;
  /// Waits until exactly `count` processes have this role. If that does not happen in time, fails the test and returns
  /// an empty vector.
  std::vector<FoundProcess> wait_for(Part part, std::size_t count) const;

  /// One line for each thing that the run has left. What this process itself holds is not included: see Holdings.
  std::vector<std::string> leftovers() const;
  /// Waits until nothing is left, and fails the test if something is still left after this time.
  void expect_nothing_left(std::chrono::milliseconds within = std::chrono::seconds{10}) const;

 private:
  std::string mark_;
  std::vector<std::string> before_;  // shared memory and cgroups that existed before this run
  std::filesystem::path root_;
  std::filesystem::path folder_;
};

/// What this process holds: its descriptors, each by its kind or path, and its threads, each by its name.
struct Holdings {
  std::vector<std::string> descriptors;
  std::vector<std::string> threads;

  static Holdings now();
  /// Returns whether the descriptors are the same as in `before`, and no thread is new. A thread may be missing: one
  /// that was already joined may still have been listed in `before`.
  bool are_as(const Holdings& before) const;
};
std::ostream& operator<<(std::ostream& out, const Holdings& holdings);

/// Calls `condition` every few milliseconds until it returns true or the time has passed. Returns its last result.
template <class Condition>
bool eventually(const Condition& condition, std::chrono::milliseconds within = std::chrono::seconds{10});

void pause_before_looking_again();

template <class Condition>
bool eventually(const Condition& condition, std::chrono::milliseconds within) {
  const auto end = std::chrono::steady_clock::now() + within;
  for (;;) {
    if (condition()) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    pause_before_looking_again();
  }
}

}  // namespace pharos::cluster
