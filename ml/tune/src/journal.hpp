#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

#include "sweep.hpp"

namespace pharos::ml {

/// What a sweep is, at the head of its journal: for those who read it without the program.
struct JournalHead {
  std::string metric{};
  Goal goal = Goal::kMinimise;
  std::uint64_t trials = 0;
  std::uint64_t steps = 0;
  std::vector<std::string> constraints{};
  std::string space{};                 ///< JSON
  std::string searcher{};              ///< what it is called
  std::vector<std::string> command{};  ///< that began it
  std::string working_folder{};
};

/// A sweep's events in a file, one after the other, each with its length and checksum: what was written is there when
/// the tuner dies, and what was synced when the machine does. One tuner has it at a time.
///
/// Owned by the tuner; one thread. append() keeps, write() hands to the kernel; a thread of its own syncs, not more
/// often than every kSyncTime. Failure: what could not be written is an error of write(); the file stays readable.
class Journal {
 public:
  static constexpr auto kSyncTime = std::chrono::milliseconds{100};

  struct Contents {
    JournalHead head{};
    std::uint64_t bytes = 0;  ///< up to where it makes sense
    bool was_cut = false;     ///< behind that there is the beginning of an event
  };
  /// Reads one, and gives its events to `take`. kCorrupt: bytes in its middle are wrong; kUnsupported: another version
  /// of Pharos wrote it; else what `take` returns.
  static Result<Contents> read(const std::filesystem::path& file,
                               const std::function<Result<void>(const SweepEvent& event)>& take);

  /// A new one. kAlreadyExists: there is one.
  static Result<std::unique_ptr<Journal>> create(const std::filesystem::path& file, const JournalHead& head,
                                                 bool durable);
  /// One that has been read up to there; what is behind goes. kFailedPrecondition: another tuner has it.
  static Result<std::unique_ptr<Journal>> open(const std::filesystem::path& file, bool durable);
  Result<void> go_on_at(std::uint64_t bytes);

  Journal(Fd file, bool durable);
  Journal(Journal&&) = delete;
  ~Journal();

  void append(const SweepEvent& event);
  Result<void> write();
  /// Writes, and waits until that is durable (if it is to be).
  Result<void> sync();

 private:
  static Result<std::unique_ptr<Journal>> take(Fd file, bool durable, const std::filesystem::path& path);
  void append_frame(std::span<const std::byte> payload);
  void run();

  const Fd file_;
  const bool durable_;
  std::vector<std::byte> pending_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable ending_;
  std::uint64_t end_ = 0;  // of the file, as it should be
  std::uint64_t synced_ = 0;
  std::optional<Error> failed_;
  bool ends_ = false;
  std::thread syncing_;  // the last: it uses the others
};

}  // namespace pharos::ml
