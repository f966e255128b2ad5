#include "rank_logs.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

#include <pharos/base/fd.hpp>
#include <pharos/base/whole_files.hpp>

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWaitingMax = std::size_t{16} << 20;  // bytes of one rank that wait to be written
constexpr Duration kLastTime = std::chrono::seconds{2};
constexpr const char* kLeftOut = "[pharos: lines were left out here, there were too many at once]\n";
constexpr const char* kRemedy = "Free some space, or give a folder on a larger disk.";

}  // namespace

/// Output on its way from the thread that receives it to the thread that writes it.
struct RankLogs::Inbox {
  std::mutex mutex{};
  std::condition_variable changed{};
  std::map<std::string, std::string> lines{};              // by rank
  std::set<std::pair<std::string, std::int32_t>> ended{};  // ranks, and process ids, whose output has ended
};

RankLogs::RankLogs(Runtime& runtime, const std::string& name, const fs::path& folder)
    : folder_{folder / "logs"}, inbox_{std::make_shared<Inbox>()} {
  const auto hear = [inbox = inbox_, prefix = name + '/'](const WorkerOutput& output) {
    if (!output.worker.starts_with(prefix)) return;
    const std::string rank = output.worker.substr(prefix.size());
    const std::lock_guard lock{inbox->mutex};
    if (output.is_last) {
      inbox->ended.emplace(rank, output.process);
      inbox->changed.notify_all();
      return;
    }
    std::string& lines = inbox->lines[rank];
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
  Result<void> written;
  for (auto& [rank, text] : lines) {
    auto its = append("rank-" + rank + ".log", text);
    if (its) continue;
    written = std::move(its);
    const std::lock_guard lock{inbox_->mutex};
    inbox_->lines[rank].insert(0, text);
  }
  return written;
}

/// Appends the text to a file, and removes what was written from the text.
Result<void> RankLogs::append(const std::string& name, std::string& text) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return Error::from_errno("making " + folder_.string(), error.value(), kRemedy);
  const fs::path path = folder_ / name;
  const std::string what = "writing " + path.string();
  const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
  if (!file) return Error::from_errno(what, errno, kRemedy);
  const off_t begin = ::lseek(file.get(), 0, SEEK_END);
  auto written = write_whole(file, std::as_bytes(std::span{text}), what, kRemedy);
  text.erase(0, static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_CUR) - begin));
  return written;
}

void RankLogs::wait_for_last_of(const std::vector<std::int32_t>& processes) {
  std::unique_lock lock{inbox_->mutex};
  const auto all_ended = [&] {
    for (std::size_t rank = 0; rank < processes.size(); ++rank) {
      if (processes[rank] != 0 && !inbox_->ended.contains({std::to_string(rank), processes[rank]})) return false;
    }
    return true;
  };
  inbox_->changed.wait_for(lock, kLastTime, all_ended);  // output that comes later, over a slow network, is lost
  inbox_->ended.clear();
}

}  // namespace pharos::ml
