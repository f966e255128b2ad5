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

#include "log_file.hpp"

namespace pharos::node {

/// What the workers of a node have written, and how they ended: also of those that are gone, for as long as the node
/// lives.
/// Owned by the node; on its strand. Never waits for the disk: that has kUnwrittenMax bytes of each worker at most, and
/// of what comes faster the older is left out.
/// Bounds, on disk: `worker_max` bytes of each, `total_max` of all together. The oldest of those that have ended make
/// room; when none is left, each that lives has its share, and the largest loses its older half.
class Logs {
 public:
  static constexpr std::size_t kUnwrittenMax = std::size_t{4} << 20;
  static constexpr std::size_t kEndedMax = 1000;
  static constexpr std::uint32_t kPartMax = 256 << 10;  ///< of what is read at once

  struct Settings {
    std::string folder;  ///< empty: nothing is kept
    std::string own;     ///< where the node itself writes; empty: not into a file
    std::uint64_t worker_max = std::uint64_t{16} << 20;
    std::uint64_t total_max = std::uint64_t{512} << 20;
  };
  /// As Host::run_aside().
  using RunAside = std::function<void(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done)>;
  Logs(RunAside run_aside, Settings settings, NodeId node, std::string role);

  struct Writer {
    WorkerId worker;
    ActorId actor;  ///< none: it runs tasks
    std::uint32_t incarnation = 0;
    std::string label;
  };
  void begin(const Writer& writer);
  void note_process(WorkerId worker, pid_t pid);
  void write(WorkerId worker, std::string_view text);
  void end(WorkerId worker, const std::string& reason);

  /// One for each of them.
  wire::Rows list() const;
  /// kNotFound: there is none of that id.
  using TakePart = async::UniqueFunction<void(Result<wire::LogPart>)>;
  void read(const wire::ReadLog& asked, TakePart take);

 private:
  struct Log {
    Writer writer;
    pid_t pid = 0;
    std::string reason{};  // empty: it lives
    std::shared_ptr<LogFile> file;
    std::uint64_t bytes = 0;  // on disk
    std::string unwritten{};
    bool being_written = false;
  };
  void write_down(Log& log);
  void make_room();
  void note_bytes(Log& log);
  /// `done` runs on the strand, with the log, if that is still there; null: it is not.
  template <class Work, class Done>
  void work_at(WorkerId worker, Work work, Done done);

  const RunAside run_aside_;
  const Settings settings_;
  const NodeId node_;
  const std::string role_;
  std::unordered_map<WorkerId, Log> logs_;
  std::deque<WorkerId> ended_;  // oldest first
  std::uint64_t total_ = 0;
  bool makes_room_ = false;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace pharos::node
