#include "users/process_listing.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "head/rows.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kExplainTime = 1500ms;     // for a process to say what it does
constexpr auto kStacksTime = 3s;          // to read stacks: 2 s, and the time to read the symbols of a large program
constexpr auto kListTime = 3s;            // after which no further process is looked at
constexpr std::size_t kStacksAtOnce = 4;  // each costs a process that reads symbols
constexpr std::size_t kAskedAtOnce = 64;
constexpr std::size_t kStacksMax = std::size_t{3} << 20;  // bytes in an answer

enum Column : std::size_t { kId, kWhat, kActor, kNode, kPid, kRuns, kSeconds, kWaits, kStacks };

std::string seconds(std::int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", static_cast<double>(nanoseconds) / 1e9);
  return text;
}

/// The cells of a row of a list of stacks that the other two lists have.
using Columns = std::vector<std::pair<const char*, Column>>;
const Columns& columns_of(const std::string& table) {
  static const Columns of_workers{{"id", kId},   {"what", kWhat}, {"actor", kActor},    {"node", kNode},
                                  {"pid", kPid}, {"runs", kRuns}, {"seconds", kSeconds}};
  static const Columns of_tasks{{"runs", kRuns},   {"seconds", kSeconds}, {"id", kId},  {"what", kWhat},
                                {"actor", kActor}, {"node", kNode},       {"pid", kPid}};
  return table == "tasks" ? of_tasks : of_workers;
}

wire::Rows without_stacks(const wire::Rows& stacks, const std::string& table) {
  wire::Rows all;
  const Columns& columns = columns_of(table);
  for (const auto& [name, column] : columns) all.columns.emplace_back(name);
  for (const auto& row : stacks.rows) {
    if (table == "tasks" && row[kRuns].empty()) continue;
    auto& cells = all.rows.emplace_back();
    for (const auto& [name, column] : columns) cells.push_back(row[column]);
  }
  return all;
}

}  // namespace

struct ProcessListing::Table {
  wire::Rows rows;
  bool has_stacks = false;
  std::size_t next = 0;     // the first row that no coroutine looks at yet
  std::size_t lookers = 0;  // coroutines that have not ended
  std::size_t bytes = 0;
  async::Deadline until = async::Deadline::never();
  async::Completion<void> done;
};

/// Rows for the workers of this node, and perhaps for the drivers that have registered here. The columns for what they
/// do are empty.
wire::Rows ProcessListing::list_processes(bool has_drivers) const {
  wire::Rows all{{"id", "what", "actor", "node", "pid", "runs", "seconds", "waits", "stacks"}, {}, 0, 0};
  const std::string here = to_string(site_.settings.id);
  for (const auto& [id, worker] : workers_.all()) {
    const ActorId actor = worker->incarnation.actor;
    all.rows.push_back({to_string(id), worker->label, actor ? to_string(actor) : "", here,
                        std::to_string(worker->process.pid), "", "", "", ""});
  }
  for (const auto& [id, job] : jobs_.all()) {
    if (!has_drivers || job->driver == nullptr) continue;
    all.rows.push_back({to_string(id), job->program.executable, "", here, "", "", "", "", ""});
  }
  return all;
}

async::Async<void> ProcessListing::list(std::shared_ptr<net::Peer> from, wire::ListRows asked, std::uint64_t request) {
  const auto table = std::make_shared<Table>();
  table->has_stacks = asked.table == "stacks";
  table->rows = list_processes(table->has_stacks);
  if (table->has_stacks) {  // stacks are read only where they are asked for
    auto rows = select_rows(std::move(table->rows), asked);
    if (!rows) {
      from->respond(request, std::move(rows).error());
      co_return;
    }
    table->rows = *std::move(rows);
  }
  table->until = async::Deadline::after(kListTime, site_.executor.now());
  table->lookers = std::min(table->rows.rows.size(), table->has_stacks ? kStacksAtOnce : kAskedAtOnce);
  if (table->lookers == 0) table->done.complete();
  for (std::size_t i = 0; i < table->lookers; ++i) site_.background.spawn(look_at_next(table));
  const auto done = co_await table->done.wait(async::Deadline::never());
  if (!done) co_return;
  if (table->has_stacks) {
    from->respond(request, table->rows);
  } else if (auto rows = select_rows(without_stacks(table->rows, asked.table), asked)) {
    from->respond(request, *std::move(rows));
  } else {
    from->respond(request, std::move(rows).error());
  }
}

async::Async<void> ProcessListing::look_at_next(std::shared_ptr<Table> table) {
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

async::Async<void> ProcessListing::look_at(std::shared_ptr<Table> table, std::size_t row) {
  auto& cells = table->rows.rows[row];
  const Row looked_at = find(cells[kId]);
  if (table->has_stacks && looked_at.zygote != nullptr) {
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

ProcessListing::Row ProcessListing::find(const std::string& id) const {
  const auto is_its = [&](const auto& each) { return to_string(each.first) == id; };
  const auto worker = std::find_if(workers_.all().begin(), workers_.all().end(), is_its);
  if (worker != workers_.all().end()) {
    return {worker->first, worker->second->control, worker->second->zygote->peer};
  }
  const auto job = std::find_if(jobs_.all().begin(), jobs_.all().end(), is_its);
  return job == jobs_.all().end() ? Row{} : Row{{}, job->second->driver, nullptr};
}

}  // namespace pharos::node
