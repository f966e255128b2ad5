#include "logs.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "rows.hpp"

namespace pharos::console {
namespace {

constexpr std::size_t kColumns = 8;
constexpr std::uint32_t kPart = 256 << 10;
constexpr auto kFollowPause = std::chrono::milliseconds{200};
constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();

/// A log, as a row of its node's list.
struct Log {
  std::string id;
  std::string what;
  std::string actor;
  std::uint64_t incarnation = 0;
  NodeId node;

  explicit Log(const std::vector<std::string>& row)
      : id{row[0]},
        what{row[1]},
        actor{row[2]},
        incarnation{row[3].empty() ? 0 : std::stoull(row[3])},
        node{node_of(row[4])} {}
  bool is(const std::string& name) const { return id == name || actor == name || what == name; }
  /// Returns the identity of the writer: the actor, whose processes have one log each, or the log's own id.
  const std::string& whose() const { return actor.empty() ? id : actor; }
};

/// The logs of all nodes.
Result<RowsOfNodes> find_logs(NodeConnection& asked, const std::string& name) {
  PHAROS_TRY(const wire::Rows nodes,
             rows_of(asked.ask(wire::ListRows{.table = "nodes", .filters = {}, .limit = kAllRows})));
  std::vector<wire::Message> questions;
  for (const auto& node : nodes.rows) {
    wire::ListRows question{.table = "logs", .filters = {}, .limit = kAllRows, .number = 0, .node = node_of(node[0])};
    if (!name.empty()) question.filters.push_back({"*", name, false});
    questions.emplace_back(std::move(question));
  }
  return rows_of_nodes(asked, std::move(questions), kColumns);
}

Error not_found(NodeConnection& asked, const std::string& name, const RowsOfNodes& found) {
  std::string text = "there is no log of \"" + name + "\"";
  // Else `name` is a node's id, and the rows are the logs of that node's processes.
  if (name == "head" || !found.rows.rows.empty()) {
    return {ErrorCode::kNotFound, (name == "head" ? "the head" : "node " + name) + " does not write into a file",
            "Look where it was started."};
  }
  if (!found.silent.empty()) return nodes_are_silent(found.silent);
  const auto actors =
      rows_of(asked.ask(wire::ListRows{.table = "actors", .filters = {{"*", name, false}}, .limit = 1}));
  if (actors && !actors->rows.empty()) text += ": it has had no process, or the node of its process has ended";
  return {ErrorCode::kNotFound, text, "pharos logs shows which logs there are."};
}

/// Chooses the log named `name`; of an actor, the log of its newest process.
Result<Log> choose(NodeConnection& asked, const std::string& name) {
  PHAROS_TRY(RowsOfNodes found, find_logs(asked, name));
  std::vector<Log> logs;
  for (const auto& row : found.rows.rows) logs.emplace_back(row);
  std::erase_if(logs, [&](const Log& log) { return !log.is(name); });
  if (logs.empty()) return not_found(asked, name, found);
  std::sort(logs.begin(), logs.end(), [](const Log& a, const Log& b) { return a.incarnation > b.incarnation; });
  if (std::any_of(logs.begin(), logs.end(), [&](const Log& log) { return log.whose() != logs.front().whose(); })) {
    std::string which;
    for (const Log& log : logs) which += "\n  pharos logs " + log.id + "  # on node " + to_string(log.node);
    return Error{ErrorCode::kInvalidArgument, std::to_string(logs.size()) + " logs belong to \"" + name + "\"",
                 "Choose one:" + which};
  }
  for (auto log = logs.begin() + 1; log != logs.end(); ++log) {
    std::cerr << "pharos: an earlier process of it: pharos logs " << log->id << '\n';
  }
  return logs.front();
}

Result<wire::LogPart> read(NodeConnection& asked, const Log& log, std::uint64_t from, std::uint32_t most) {
  PHAROS_TRY(wire::Message answer,
             asked.ask(wire::ReadLog{.node = log.node, .log = log.id, .from = from, .most = most}));
  auto* const part = std::get_if<wire::LogPart>(&answer);
  if (part == nullptr) return Error{ErrorCode::kInternal, "the node sent an invalid answer"};
  return std::move(*part);
}

/// Returns the offset where the last `lines` lines begin.
Result<std::uint64_t> begin_of_tail(NodeConnection& asked, const Log& log, std::uint64_t lines) {
  PHAROS_TRY(const wire::LogPart end, read(asked, log, kEnd, 0));
  std::uint64_t until = end.size;
  bool is_last = true;  // the newline at the end of the log does not begin another line
  while (until != 0) {
    const std::uint64_t from = until - std::min<std::uint64_t>(until, kPart);
    PHAROS_TRY(const wire::LogPart part, read(asked, log, from, static_cast<std::uint32_t>(until - from)));
    for (std::size_t i = part.text.size(); i-- > 0;) {
      if (part.text[i] == '\n' && !std::exchange(is_last, false) && lines-- <= 1) return part.from + i + 1;
      is_last = false;
    }
    if (part.from > from || part.text.empty()) return part.from;  // the log has no earlier text any more
    until = from;
  }
  return 0;
}

Result<void> print(NodeConnection& asked, const Log& log, const LogsOptions& options) {
  std::uint64_t next = 0;
  if (options.tail) {
    const std::uint64_t lines = *options.tail;
    PHAROS_TRY(next, lines == 0 ? Result<std::uint64_t>{kEnd} : begin_of_tail(asked, log, lines));
  }
  for (;;) {
    PHAROS_TRY(const wire::LogPart part, read(asked, log, next, kPart));
    if (part.from > next) {
      std::cerr << "pharos: " << part.from - next
                << " bytes before this were deleted: a log keeps only its newest part\n";
    }
    std::cout << part.text << std::flush;
    next = part.from + part.text.size();
    if (!std::cout) return Error{ErrorCode::kUnavailable, "standard output cannot be written to"};
    if (next < part.size && !part.text.empty()) continue;
    if (!options.follow || part.ended) return {};
    std::this_thread::sleep_for(kFollowPause);
  }
}

}  // namespace

Result<void> print_logs(const LogsOptions& options) {
  if (options.id.empty() && (options.tail || options.follow)) {
    return Error{ErrorCode::kInvalidArgument, "--tail and --follow need the id of a log",
                 "pharos logs shows which there are."};
  }
  PHAROS_TRY(NodeConnection asked, NodeConnection::connect(options.place));
  if (!options.id.empty()) {
    PHAROS_TRY(const Log log, choose(asked, options.id));
    return print(asked, log, options);
  }
  PHAROS_TRY(const RowsOfNodes found, find_logs(asked, {}));
  if (options.format == "json") {
    print_json(found.rows);
  } else if (found.rows.rows.empty()) {
    std::cout << "no logs\n";
  } else {
    print_table(found.rows);
  }
  if (!found.silent.empty()) return nodes_are_silent(found.silent);
  return {};
}

void add_logs(Commands& commands) {
  const auto options = std::make_shared<LogsOptions>();
  CLI::App& command =
      commands.add("logs", "Prints what a worker or a node has written, also after its end; or the list of logs",
                   [options] { return status_of(print_logs(*options)); });
  command.add_option("id", options->id,
                     "An actor's id or name, a worker's or a node's id, or \"head\" (default: the list of logs)");
  command.add_option("--tail", options->tail, "Only the last lines, so many")
      ->type_name("LINES")
      ->check(not_negative());
  command.add_flag("--follow,-f", options->follow, "Goes on until the worker or node has ended");
  one_of(command.add_option("--format", options->format, "How to print the list"), {"table", "json"})
      ->capture_default_str();
  add_place_options(command, options->place);
  command.footer(
      "A log has a worker's standard output and standard error, in the order in which its node read them. The node "
      "keeps\n"
      "the newest 16 MiB of each log; logs end with the node.\n"
      "Examples:\n"
      "  pharos logs\n"
      "  pharos logs trainer --tail 20 --follow\n"
      "  pharos logs 1f0c5a7d93b2e846\n"
      "  pharos logs head --address 10.0.0.1:7400 --token-file ~/cluster.token\n"
      "Exit codes: 0 done, 1 there is no such log or its node does not answer, 2 the arguments make no sense.");
}

}  // namespace pharos::console
