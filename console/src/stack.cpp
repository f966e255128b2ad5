#include "stack.hpp"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "listing.hpp"

namespace pharos::console {
namespace {

/// Returns the nodes of the cluster, and those that programs run for themselves.
Result<std::set<NodeId>> all_nodes(Asked& asked) {
  std::set<NodeId> nodes;
  for (const auto& [table, column] : {std::pair{"nodes", "id"}, std::pair{"jobs", "node"}}) {
    PHAROS_TRY(const wire::Rows rows,
               rows_of(asked.ask(wire::ListRows{.table = table, .filters = {}, .limit = kAllRows})));
    const auto found = std::find(rows.columns.begin(), rows.columns.end(), column);
    if (found == rows.columns.end()) return Error{ErrorCode::kInternal, "the node sent an invalid answer"};
    for (const auto& row : rows.rows) {
      const NodeId node = node_of(row[static_cast<std::size_t>(found - rows.columns.begin())]);
      if (node) nodes.insert(node);  // a program that has ended has no node
    }
  }
  return nodes;
}

void print_process(const std::vector<std::string>& row) {
  const auto& [id, what, actor, node] = std::tie(row[0], row[1], row[2], row[3]);
  std::cout << what << " (" << (actor.empty() ? id : "actor " + actor) << ", pid " << (row[4].empty() ? "?" : row[4])
            << ", node " << node << ")";
  if (!row[5].empty()) std::cout << " runs " << row[5] << " for " << row[6] << " s";
  std::cout << '\n' << row[7] << row[8] << '\n';
}

}  // namespace

Result<void> print_stacks(const Place& place, const StackOptions& options) {
  PHAROS_TRY(Asked asked, Asked::connect(place));
  PHAROS_TRY(std::set<NodeId> nodes, all_nodes(asked));
  std::vector<wire::Message> questions;
  const bool one_node =
      std::any_of(nodes.begin(), nodes.end(), [&](NodeId node) { return to_string(node) == options.id; });
  for (const NodeId node : nodes) {
    if (one_node && to_string(node) != options.id) continue;
    wire::ListRows question{.table = "stacks", .filters = {}, .limit = kAllRows, .number = 0, .node = node};
    if (!options.id.empty()) question.filters.push_back({"*", options.id, false});
    questions.emplace_back(std::move(question));
  }
  wire::Rows all;
  std::string silent;
  for (auto& answer : asked.ask_all(std::move(questions))) {
    auto rows = rows_of(std::move(answer));
    if (!rows) {
      silent += "\n  " + rows.error().to_string();
      continue;
    }
    if (rows->columns.size() != 9) return Error{ErrorCode::kInternal, "the node sent an invalid answer"};
    all.columns = rows->columns;
    std::move(rows->rows.begin(), rows->rows.end(), std::back_inserter(all.rows));
  }
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

}  // namespace pharos::console
