#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "rows.hpp"

namespace pharos::console {
namespace {

struct StackOptions {
  Place place;
  /// Id of an actor, a worker, a program or a node, or an actor's name. Empty: all processes.
  std::string id{};
  std::string format = "text";  // or "json"
};

void print_process(const std::vector<std::string>& row) {
  const auto& [id, what, actor, node] = std::tie(row[0], row[1], row[2], row[3]);
  std::cout << what << " (" << (actor.empty() ? id : "actor " + actor) << ", pid " << (row[4].empty() ? "?" : row[4])
            << ", node " << node << ")";
  if (!row[5].empty()) std::cout << " runs " << row[5] << " for " << row[6] << " s";
  std::cout << '\n' << row[7] << row[8] << '\n';
}

Result<void> print_stacks(const StackOptions& options) {
  PHAROS_TRY(NodeConnection asked, NodeConnection::connect(options.place));
  PHAROS_TRY(std::set<NodeId> nodes, nodes_of_cluster(asked));
  const auto is_other = [&](NodeId node) { return to_string(node) != options.id; };
  const bool one_node = !std::all_of(nodes.begin(), nodes.end(), is_other);
  if (one_node) std::erase_if(nodes, is_other);
  wire::ListRows question{.table = "stacks", .filters = {}, .limit = kAllRows};
  if (!options.id.empty()) question.filters.push_back({"*", options.id, false});
  PHAROS_TRY(const auto found, rows_of_each(asked, nodes, question, 9));
  const auto& [all, silent] = found;
  if (all.rows.empty() && !silent.empty()) return nodes_are_silent(silent);
  if (all.rows.empty() && !options.id.empty() && !one_node) {
    return Error{ErrorCode::kNotFound, "no process of \"" + options.id + "\" runs",
                 "pharos list actors says what became of actors, pharos logs what they wrote."};
  }
  if (options.format == "json") {
    print_json(all);
  } else if (all.rows.empty()) {
    std::cout << "no worker and no program runs\n";
  } else {
    for (const auto& row : all.rows) print_process(row);
  }
  if (!silent.empty()) return nodes_are_silent(silent);
  return {};
}

}  // namespace

void add_stack(Commands& commands) {
  const auto options = std::make_shared<StackOptions>();
  CLI::App& command = commands.add(
      "stack", "Shows what workers and programs run, where their threads are, and what their get()s wait for",
      [options] { return status_of(print_stacks(*options)); });
  command.add_option(
      "id", options->id,
      "An actor's id or name, a worker's, a program's (job's) or a node's id (default: the whole cluster)");
  add_format_option(command, options->format);
  add_place_options(command, options->place);
  command.footer(
      "Workers go on: a signal handler writes down where each thread is, and system calls that can be taken up again "
      "are.\n"
      "If a process does not answer within two seconds, its state in the kernel is shown.\n"
      "Examples:\n"
      "  pharos stack trainer\n"
      "  pharos stack 1f0c5a7d93b2e846 --format json | jq -r '.[].stacks'\n"
      "  pharos stack --address 10.0.0.1:7400 --token-file ~/cluster.token\n"
      "Exit codes: 0 done, 1 there is no such process or the node does not answer, 2 the arguments make no sense.");
}

}  // namespace pharos::console
