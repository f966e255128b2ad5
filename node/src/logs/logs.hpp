#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include <pharos/async/unique_function.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

#include "logs/log_file.hpp"

namespace pharos::node {

/// The output of a node's workers, and how they ended. Logs of workers that are gone are kept, too, as long as the node
/// lives and there is room.
/// Owned by Node; on its strand. Never waits for the disk: up to kUnwrittenMax bytes of each worker wait in memory. If
/// output comes faster than the disk takes it, the older part of this is left out.
/// Bounds on disk: `worker_max` bytes for each worker, `total_max` for all together, kEndedMax ended workers. The logs
/// of the workers that ended first are removed to make room. When no ended worker is left, each living worker has an
/// equal share, and the largest log loses its older half.
/// Failure: what cannot be written is missing in the log, which says so. Calls about unknown workers do nothing.
/// End: the destructor; work on other threads finishes without it. Text that waits in memory is lost, and the files
/// stay.
class Logs {
 public:
  static constexpr std::size_t kUnwrittenMax = std::size_t{4} << 20;
  static constexpr std::size_t kEndedMax = 1000;
  static constexpr std::uint32_t kPartMax = 256 << 10;  ///< bytes that are read at once

  struct Settings {
    std::string folder;  ///< folder of the log files; empty: nothing is kept
    std::string own;     ///< the file that the node itself writes its log to; empty: it writes to no file
    std::uint64_t worker_max = std::uint64_t{16} << 20;
    std::uint64_t total_max = std::uint64_t{512} << 20;
  };
  /// Does the same as Host::run_blocking().
  using RunAside = std::function<void(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done)>;
  Logs(RunAside run_blocking, Settings settings, NodeId node, std::string role);

  struct Writer {
    WorkerId worker;
    ActorId actor;  ///< unset: the worker runs tasks
    std::uint32_t incarnation = 0;
    std::string label;
  };
  void begin(const Writer& writer);
  void note_process(WorkerId worker, pid_t pid);
  void write(WorkerId worker, std::string_view text);
  void end(WorkerId worker, const std::string& reason);

  /// One row for each worker, and one for the node itself if it writes to a file. Rows are neither sorted nor cut.
  wire::Rows list() const;
  using TakePart = async::UniqueFunction<void(Result<wire::LogPart>)>;
  /// Reads a part of a log, on another thread, and gives it to `take` on the strand. If there is no log of that id,
  /// `take` gets kNotFound inside this call. `take` may run after the destructor, and does not run if RunAside has
  /// ended.
  void read(const wire::ReadLog& asked, TakePart take);

 private:
  struct Log {
    Writer writer;
    pid_t pid = 0;
    std::string reason{};  // how the worker ended; empty: it lives
    std::shared_ptr<LogFile> file;
    std::uint64_t bytes = 0;     // on disk
    std::string unwritten{};     // text that waits until the disk has taken the text before
    std::uint64_t left_out = 0;  // bytes of output before it that the disk was too slow for
    bool being_written = false;
  };
  void write_down(Log& log);
  void make_room();
  void note_bytes(Log& log);
  /// Runs `work` on another thread, then `done` on the strand with the worker's log, or with nullptr if the log is
  /// gone.
  template <class Work, class Done>
  void work_at(WorkerId worker, Work work, Done done);

  const RunAside run_blocking_;
  const Settings settings_;
  const NodeId node_;
  const std::string role_;
  std::unordered_map<WorkerId, Log> logs_;
  std::deque<WorkerId> ended_;  // the worker that ended first comes first
  std::uint64_t total_ = 0;
  bool makes_room_ = false;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace pharos::node
