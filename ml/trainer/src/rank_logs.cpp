#include "rank_logs.hpp"

#include <fcntl.h>

#include <cerrno>
#include <mutex>
#include <utility>

#include <pharos/base/fd.hpp>
#include <pharos/base/whole_files.hpp>

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWaitingMax = std::size_t{16} << 20;  // bytes of a rank that are not written yet
constexpr const char* kLeftOut = "[pharos: lines were left out here, there were too many at once]\n";
constexpr const char* kRemedy = "Make room, or give a folder of a larger disk.";

}  // namespace

/// Between the thread that hears and the one that writes.
struct RankLogs::Inbox {
  std::mutex mutex{};
  std::map<std::string, std::string> lines{};  // by rank
};

RankLogs::RankLogs(Runtime& runtime, const std::string& name, const fs::path& folder)
    : folder_{folder / "logs"}, inbox_{std::make_shared<Inbox>()} {
  const auto hear = [inbox = inbox_, prefix = name + '/'](const WorkerOutput& output) {
    if (!output.worker.starts_with(prefix)) return;
    const std::lock_guard lock{inbox->mutex};
    std::string& lines = inbox->lines[output.worker.substr(prefix.size())];
    if (lines.size() + output.lines.size() < kWaitingMax) {
      lines += output.lines;
      if (!lines.empty() && lines.back() != '\n') lines += '\n';
    } else if (!lines.ends_with(kLeftOut)) {
      lines += kLeftOut;
    }
  };
  listener_ = std::make_shared<const OutputListener>(hear);
  runtime.listen_to_output(listener_);
}

Result<void> RankLogs::write() {
  std::map<std::string, std::string> lines;
  {
    const std::lock_guard lock{inbox_->mutex};
    lines.swap(inbox_->lines);
  }
  if (lines.empty()) return {};
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return Error::from_errno("making " + folder_.string(), error.value(), kRemedy);
  for (const auto& [rank, text] : lines) {
    const fs::path path = folder_ / ("rank-" + rank + ".log");
    const std::string what = "writing " + path.string();
    const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
    if (!file) return Error::from_errno(what, errno, kRemedy);
    PHAROS_TRY_VOID(write_whole(file, std::as_bytes(std::span{text}), what, kRemedy));
  }
  return {};
}

}  // namespace pharos::ml
