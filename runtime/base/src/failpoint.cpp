#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>

#include <pharos/base/failpoint.hpp>

namespace pharos {
namespace {

// Written before detail::ordered_failpoint, so that a thread which sees the order sees its action too.
FailpointOrder::Action ordered_action{};
std::atomic<std::uint32_t> passes_left = 0;

// Adds a line to PHAROS_FAILPOINTS_REACHED, before the process may die. Nothing else needs the file, so a failure here
// has no other effect than that tools/failpoints misses the line.
void record(std::string_view name) {
  const char* const path = std::getenv("PHAROS_FAILPOINTS_REACHED");
  static std::atomic<FailpointId> last = FailpointId::kNone;
  const FailpointId id = Failpoint::id_of(name);
  if (path == nullptr || last.exchange(id) == id) return;  // a step that fails again and again is recorded once
  const int file = ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return;
  const std::string line = std::string{name} + "\n";
  [[maybe_unused]] const auto written = ::write(file, line.data(), line.size());
  ::close(file);
}

}  // namespace

std::atomic<FailpointId> detail::ordered_failpoint = FailpointId::kNone;

Result<FailpointOrder> parse_failpoint(std::string_view text) {
  const Error wrong{
      ErrorCode::kInvalidArgument, "\"" + std::string{text} + "\" is not a valid order for a failpoint",
      "Write NAME:kill, NAME:stop, NAME:fail or NAME:fail_once, optionally followed by a number of passes: "
      "slot_begun:kill:3."};
  const auto next = [&text] {
    const auto word = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    return word;
  };
  const auto name = next();
  const auto action = next();
  const auto passes = next();
  FailpointOrder order{.at = Failpoint::id_of(name)};
  if (action == "stop") {
    order.action = FailpointOrder::Action::kStop;
  } else if (action == "fail") {
    order.action = FailpointOrder::Action::kFail;
  } else if (action == "fail_once") {
    order.action = FailpointOrder::Action::kFailOnce;
  } else if (action != "kill") {
    return wrong;
  }
  const auto read = std::from_chars(passes.data(), passes.data() + passes.size(), order.passes);
  const bool is_number = passes.empty() || (read.ec == std::errc{} && read.ptr == passes.data() + passes.size());
  if (name.empty() || !is_number || !text.empty()) return wrong;
  return order;
}

void order_failpoint(const FailpointOrder& order) {
  ordered_action = order.action;
  passes_left.store(order.passes);
  detail::ordered_failpoint.store(order.at);
}

bool detail::reach(std::string_view name) {
  std::uint32_t left = passes_left.load();
  do {
    if (left == 0) break;
  } while (!passes_left.compare_exchange_weak(left, left - 1));
  if (left != 0) return false;
  record(name);
  switch (ordered_action) {
    case FailpointOrder::Action::kKill: ::raise(SIGKILL); break;
    case FailpointOrder::Action::kStop:
      ordered_failpoint.store(FailpointId::kNone);  // after SIGCONT the process goes on without an order
      ::raise(SIGSTOP);
      break;
    case FailpointOrder::Action::kFail: return true;
    case FailpointOrder::Action::kFailOnce: return ordered_failpoint.exchange(FailpointId::kNone) != FailpointId::kNone;
  }
  return false;
}

}  // namespace pharos
