#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <string>

#include <pharos/base/failpoint.hpp>

namespace pharos {
namespace {

constexpr std::array kNames{
    "slab_leased",    "slot_begun",       "slot_provided",  "object_written",  "object_sealed",   "result_sent",
    "object_kept",    "object_taken",     "object_let_go",  "object_ended",    "slab_given_up",   "object_asked_for",
    "store_opened",   "slab_lent",        "process_gone",   "object_spilled",  "object_out",      "memory_gone",
    "object_returns", "object_returned",  "object_claimed", "object_imported", "chunk_sent",      "chunk_received",
    "program_sent",   "records_opened",   "records_read",   "records_ready",   "records_written", "records_said",
    "rank_here",      "memory_offered",   "memory_mapped",  "data_given",      "part_reduced",    "result_taken",
    "letter_written", "letter_read",      "begin_told",     "part_sent",       "part_came",       "lane_begins",
    "lane_ended",     "daemon_forked",    "state_copied",   "save_begun",      "save_written",    "save_said",
    "saves_there",    "manifest_written", "old_goes",       "step_committed",  "step_told",       "state_given",
    "state_taken"};
static_assert(kNames.size() == static_cast<std::size_t>(Failpoint::kEnd));

// Written before detail::ordered_failpoint, so that a thread which sees the order sees its action too.
FailpointOrder::Action ordered_action{};
std::atomic<std::uint32_t> passes_left = 0;

}  // namespace

std::atomic<Failpoint> detail::ordered_failpoint = Failpoint::kEnd;

std::string_view name_of(Failpoint at) {
  return kNames[static_cast<std::size_t>(at)];
}

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
  FailpointOrder order;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) order.at = static_cast<Failpoint>(i);
  }
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
  if (order.at == Failpoint::kEnd || !is_number || !text.empty()) return wrong;
  return order;
}

void order_failpoint(const FailpointOrder& order) {
  ordered_action = order.action;
  passes_left.store(order.passes);
  detail::ordered_failpoint.store(order.at);
}

namespace {

// Adds a line to PHAROS_FAILPOINTS_REACHED, before the process may die. Nothing else needs the file, so a failure here
// has no other effect than that tools/failpoints misses the line.
void record(Failpoint at) {
  const char* const path = std::getenv("PHAROS_FAILPOINTS_REACHED");
  static std::atomic<Failpoint> last = Failpoint::kEnd;
  if (path == nullptr || last.exchange(at) == at) return;  // a step that fails again and again is recorded once
  const int file = ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return;
  const std::string line = std::string{name_of(at)} + "\n";
  [[maybe_unused]] const auto written = ::write(file, line.data(), line.size());
  ::close(file);
}

}  // namespace

bool detail::reach(Failpoint at) {
  std::uint32_t left = passes_left.load();
  do {
    if (left == 0) break;
  } while (!passes_left.compare_exchange_weak(left, left - 1));
  if (left != 0) return false;
  record(at);
  switch (ordered_action) {
    case FailpointOrder::Action::kKill: ::raise(SIGKILL); break;
    case FailpointOrder::Action::kStop:
      ordered_failpoint.store(Failpoint::kEnd);  // after SIGCONT the process goes on without an order
      ::raise(SIGSTOP);
      break;
    case FailpointOrder::Action::kFail: return true;
    case FailpointOrder::Action::kFailOnce: return ordered_failpoint.exchange(Failpoint::kEnd) != Failpoint::kEnd;
  }
  return false;
}

}  // namespace pharos
