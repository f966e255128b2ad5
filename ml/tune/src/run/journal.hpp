#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

#include "run/sweep_events.hpp"

namespace pharos::ml {

/// The description of a sweep at the head of its journal, for readers that do not have the sweep's program.
struct JournalHead {
  std::string metric{};
  Goal goal = Goal::kMinimise;
  std::uint64_t trials = 0;
  std::uint64_t steps = 0;
  std::vector<std::string> constraints{};
  std::string space{};                 ///< JSON
  std::string unused{};                ///< empty; it stands for a field that journals of this version have
  std::vector<std::string> command{};  ///< the command line that began the sweep
  std::string working_folder{};
};

/// The events of a sweep in a file, one after the other, each with its length and checksum. Events that were written
/// survive the death of the tuner, and events that were synced survive the death of the machine. A lock on the file
/// lets one tuner at a time use it.
///
/// Owned by SweepFolder, or by the code that imports a study; one thread. append() collects events in memory, write()
/// passes them to the kernel, and a thread of the journal syncs the file, at most once every kSyncTime. If writing or
/// syncing fails, each write() and sync() returns the error from then on, and no further event is written; the file
/// stays readable. The destructor writes the collected events, syncs them if the journal is durable, and ignores
/// errors.
class Journal {
 public:
  static constexpr auto kSyncTime = std::chrono::milliseconds{100};

  struct Contents {
    JournalHead head{};
    std::uint64_t bytes = 0;  ///< size of the file up to the end of its last whole event
    bool was_cut = false;     ///< an incomplete event follows
  };
  /// Reads a journal, and passes its events to `take`. Fails with kNotFound if there is no file, kCorrupt if the file
  /// is no journal or bytes in its middle are wrong, kUnsupported if another version of Pharos wrote it, and with the
  /// first error of `take`. Takes no lock: any thread or process may read a journal that is in use.
  static Result<Contents> read(const std::filesystem::path& file,
                               const std::function<Result<void>(const SweepEvent& event)>& take);

  /// Creates a journal. Fails with kAlreadyExists if there is one, and with kFailedPrecondition if another tuner is
  /// creating it.
  static Result<std::unique_ptr<Journal>> create(const std::filesystem::path& file, const JournalHead& head,
                                                 bool durable);
  /// Opens a journal and locks it; go_on_at() must follow. Fails with kFailedPrecondition if another tuner uses it.
  static Result<std::unique_ptr<Journal>> open(const std::filesystem::path& file, bool durable);
  /// Cuts the file off at the end of its last whole event, where the next event goes. `bytes` is from Contents.
  Result<void> go_on_at(std::uint64_t bytes);

  /// Used by create() and open().
  Journal(Fd file, bool durable);
  Journal(Journal&&) = delete;
  ~Journal();

  void append(const SweepEvent& event);
  Result<void> write();
  /// Writes the collected events. If the journal is durable, syncs the file, too, and waits for that.
  Result<void> sync();

 private:
  static Result<std::unique_ptr<Journal>> lock(Fd file, bool durable, const std::filesystem::path& path);
  void append_frame(std::span<const std::byte> payload);
  void sync_file();
  void run();

  const Fd file_;
  const bool durable_;
  std::vector<std::byte> pending_;

  std::mutex syncs_;  // held during each sync, and locked before mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable ending_;
  std::uint64_t end_ = 0;     // size of the file without an event that was written in part
  std::uint64_t synced_ = 0;  // size of the file that was synced
  std::optional<Error> failed_;
  bool ends_ = false;
  std::thread syncing_;  // the last member, because the thread uses the others
};

}  // namespace pharos::ml
