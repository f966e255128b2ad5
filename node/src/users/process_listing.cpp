#include "users/stack_listing.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "head/rows.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kExplainTime = 1500ms;    // for a process to say what it does
constexpr auto kStacksTime = 3s;         // to read stacks: 2 s, and the time to read the symbols of a large program
constexpr auto kListTime = 3s;           // after which no further process is looked at
constexpr std::size_t kLookedAtMax = 4;  // processes at once: each costs another process that reads symbols
constexpr std::size_t kStacksMax = std::size_t{3} << 20;  // bytes in an answer

enum Column : std::size_t { kId, kWhat, kActor, kNode, kPid, kRuns, kSeconds, kWaits, kStacks };

std::string seconds(std::int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", static_cast<double>(nanoseconds) / 1e9);
  return text;
}

}  // namespace

struct StackListing::Table {
  wire::Rows rows;
  std::size_t next = 0;     // the first row that no coroutine looks at yet
  std::size_t lookers = 0;  // coroutines that have not ended
  std::size_t bytes = 0;
  async::Deadline until = async::Deadline::never();
  async::Completion<void> done;
};

/// Rows for the workers of this node, and for the drivers that have registered here. The columns for what they do are
/// empty.
wire::Rows StackListing::list_processes() const {
  wire::Rows all{{"id", "what", "actor", "node", "pid", "runs", "seconds", "waits", "stacks"}, {}, 0, 0};
  const std::string here = to_string(site_.settings.id);
  for (const auto& [id, worker] : workers_.all()) {
    const ActorId actor = worker->incarnation.actor;
    all.rows.push_back({to_string(id), worker->label, actor ? to_string(actor) : "", here,
                        std::to_string(worker->process.pid), "", "", "", ""});
  }
  for (const auto& [id, job] : jobs_.all()) {
    if (job->driver == nullptr) continue;
    all.rows.push_back({to_string(id), job->program.executable, "", here, "", "", "", "", ""});
  }
  return all;
}

async::Async<void> StackListing::list(std::shared_ptr<net::Peer> from, wire::ListRows asked, std::uint64_t request) {
  auto rows = select_rows(list_processes(), asked);
  if (!rows) {
    from->respond(request, std::move(rows).error());
    co_return;
  }
  const auto table = std::make_shared<Table>();
  table->rows = *std::move(rows);
  table->until = async::Deadline::after(kListTime, site_.executor.now());
  table->lookers = std::min(table->rows.rows.size(), kLookedAtMax);
  if (table->lookers == 0) table->done.complete();
  for (std::size_t i = 0; i < table->lookers; ++i) site_.background.spawn(look_at_next(table));
  const auto done = co_await table->done.wait(async::Deadline::never());
  if (done) from->respond(request, table->rows);
}

async::Async<void> StackListing::look_at_next(std::shared_ptr<Table> table) {
  while (table->next < table->rows.rows.size()) {
    const std::size_t row = table->next++;
    if (table->bytes > kStacksMax || table->until.expired(site_.executor.now())) {
      table->rows.rows[row][kStacks] = "not read: there are too many processes; ask for this process alone\n";
    } else {
      co_await look_at(table, row);
    }
  }
  if (--table->lookers == 0) table->done.complete();
}

async::Async<void> StackListing::look_at(std::shared_ptr<Table> table, std::size_t row) {
  auto& cells = table->rows.rows[row];
  const Row looked_at = find(cells[kId]);
  if (looked_at.zygote != nullptr) {
    wire::Message read = wire::ReadStacks{looked_at.worker};
    const auto deadline = async::Deadline::after(kStacksTime, site_.executor.now());
    const auto answer = co_await looked_at.zygote->request(std::move(read), std::vector<Fd>{}, deadline);
    const auto* const stacks = answer ? std::get_if<wire::Stacks>(&answer->message) : nullptr;
    cells[kStacks] = stacks != nullptr ? stacks->text
                     : answer          ? "its zygote sent an invalid answer\n"
                                       : answer.error().message() + "\n";
  }
  if (looked_at.process != nullptr) {
    wire::Message explain = wire::Explain{};
    const auto deadline = async::Deadline::after(kExplainTime, site_.executor.now());
    const auto answer = co_await looked_at.process->request(std::move(explain), std::vector<Fd>{}, deadline);
    if (const auto* const said = answer ? std::get_if<wire::Explained>(&answer->message) : nullptr) {
      cells[kPid] = std::to_string(said->pid);
      cells[kRuns] = said->function;
      if (!said->function.empty()) cells[kSeconds] = seconds(said->nanoseconds);
      cells[kWaits] = said->waits;
    } else {
      cells[kWaits] = "  what it waits for is not known: it has not answered in time\n";
    }
  }
  table->bytes += cells[kStacks].size() + cells[kWaits].size();
}

StackListing::Row StackListing::find(const std::string& id) const {
  const auto is_its = [&](const auto& each) { return to_string(each.first) == id; };
  const auto worker = std::find_if(workers_.all().begin(), workers_.all().end(), is_its);
  if (worker != workers_.all().end()) {
    return {worker->first, worker->second->control, worker->second->job->zygote.peer};
  }
  const auto job = std::find_if(jobs_.all().begin(), jobs_.all().end(), is_its);
  return job == jobs_.all().end() ? Row{} : Row{{}, job->second->driver, nullptr};
}

}  // namespace pharos::node
