#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace pharos::cluster {

/// What a process of a run is there for.
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

/// All that one run leaves on a machine: processes, files, sockets, shared memory, cgroups.
/// Making one marks this process: whatever it starts from then on inherits the mark in its environment, across setsid()
/// and double forks, and has PHAROS_FOLDER in a folder of the run's own. One run at a time; one thread.
/// Ends: the folder is removed; processes are left alone.
class Census {
 public:
  /// `path_bytes`: how long the folder's path is to be at least.
  explicit Census(std::size_t path_bytes = 0);
  Census(Census&&) = delete;
  ~Census();

  /// PHAROS_FOLDER.
  const std::filesystem::path& folder() const { return folder_; }

  /// Every process of the run but this one; and those below this one, marked or not.
  std::vector<FoundProcess> processes() const;
  std::vector<FoundProcess> processes(Part part) const;
  /// Waits until there are so many processes of this part. Fails the test when there never are; then empty.
  std::vector<FoundProcess> wait_for(Part part, std::size_t count) const;

  /// One line for each thing that the run has left, this process's own things aside.
  std::vector<std::string> leftovers() const;
  /// Fails the test when something is left after this time.
  void expect_nothing_left(std::chrono::milliseconds within = std::chrono::seconds{10}) const;

 private:
  std::string mark_;
  std::vector<std::string> before_;  // shared memory and cgroups that others have
  std::filesystem::path root_;
  std::filesystem::path folder_;
};

/// What this process holds: descriptors by what they are, threads by their names.
struct Holdings {
  std::vector<std::string> descriptors;
  std::vector<std::string> threads;

  static Holdings now();
  /// The same descriptors, and no thread more: one that was joined may have been seen before, and be gone since.
  bool are_as(const Holdings& before) const;
};
std::ostream& operator<<(std::ostream& out, const Holdings& holdings);

/// Asks again and again, every few milliseconds, until it is so or the time has passed.
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
