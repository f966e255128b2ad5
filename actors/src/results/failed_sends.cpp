#include "results/failed_sends.hpp"

#include <chrono>
#include <mutex>
#include <utility>

#include <pharos/base/log.hpp>
#include <pharos/base/machine.hpp>

#include "program/function_table.hpp"

namespace pharos::actors {
namespace {

constexpr Duration kPause = std::chrono::seconds{1};

struct Lines {
  std::mutex mutex;
  TimePoint written = TimePoint{} - kPause;  // when the last line was written
  std::uint64_t unwritten = 0;
};
Lines& lines() {
  static auto* const instance = new Lines;
  return *instance;
}

}  // namespace

void log_failed_send(std::uint32_t function, const Error& why) {
  if (why.code() == ErrorCode::kRuntimeStopped) return;
  std::uint64_t unwritten = 0;
  {
    const std::lock_guard lock{lines().mutex};
    const TimePoint at = now();
    if (at - lines().written < kPause && at >= lines().written) {
      ++lines().unwritten;
      return;
    }
    lines().written = at;
    unwritten = std::exchange(lines().unwritten, 0);
  }
  log(LogLevel::kWarn, "a one-way call failed",
      {kv("function", readable_name(function_table()[function].name())), kv("why", why.message()),
       kv("more", unwritten)});
}

}  // namespace pharos::actors
