#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "rows.hpp"

namespace pharos::console {
namespace {

Result<wire::Rows> all_rows(const Place& place, std::string table, std::uint32_t limit) {
  return rows_of(ask(place, wire::ListRows{.table = std::move(table), .filters = {}, .limit = limit}));
}

std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// Asks each node that has GPUs who uses them.
Result<void> print_gpus(const Place& place, const wire::Rows& nodes) {
  std::vector<wire::Message> questions;
  for (const auto& row : nodes.rows) {
    if (row[3].find("GPU") == std::string::npos) continue;
    questions.emplace_back(
        wire::ListRows{.table = "gpus", .filters = {}, .limit = kAllRows, .number = 0, .node = node_of(row[0])});
  }
  if (questions.empty()) return {};
  PHAROS_TRY(NodeConnection asked, NodeConnection::connect(place));
  PHAROS_TRY(const auto gpus, rows_of_nodes(asked, std::move(questions), 7));
  if (!gpus.rows.rows.empty()) print_table(gpus.rows);
  if (!gpus.silent.empty()) std::cout << "The GPUs of these nodes are not known:" << gpus.silent << '\n';
  std::cout << '\n';
  return {};
}

Result<void> print_status(const Place& place) {
  PHAROS_TRY(const wire::Rows nodes, all_rows(place, "nodes", kAllRows));
  if (nodes.columns.size() < 4) return Error{ErrorCode::kInternal, "the node sent an invalid answer"};
  PHAROS_TRY(const wire::Rows jobs, all_rows(place, "jobs", kAllRows));
  PHAROS_TRY(const wire::Rows pending, all_rows(place, "pending", 20));
  PHAROS_TRY(const wire::Rows records, all_rows(place, "records", kAllRows));
  const auto node = std::find(jobs.columns.begin(), jobs.columns.end(), "node") - jobs.columns.begin();
  const auto ended =
      static_cast<std::uint64_t>(std::count_if(jobs.rows.begin(), jobs.rows.end(), [node](const auto& row) {
        return row[static_cast<std::size_t>(node)].empty();
      }));
  std::cout << counted(nodes.matching, "node") << ", " << counted(jobs.matching - ended, "program");
  if (ended != 0) std::cout << ", and detached actors of " << ended << " more";
  std::cout << "\n\n";
  print_table(nodes);
  std::cout << '\n';
  PHAROS_TRY_VOID(print_gpus(place, nodes));
  for (const auto& row : records.rows) {
    if (row[0] == "0") continue;
    std::cout << "The head could not use " << row[0]
              << " of its records, and has set them aside; its log lists their keys.\n";
  }
  if (pending.rows.empty()) {
    std::cout << "Nobody waits for resources.\n";
    return {};
  }
  std::cout << counted(pending.matching, "demand") << " that cannot be met now:\n";
  for (const auto& row : pending.rows) std::cout << "  " << row[0] << ": " << row[1] << '\n';
  if (pending.matching > pending.rows.size()) {
    std::cout << "  … and " << pending.matching - pending.rows.size() << " more\n";
  }
  return {};
}

}  // namespace

void add_status(Commands& commands) {
  const auto place = std::make_shared<Place>();
  CLI::App& command = commands.add("status", "Shows nodes and GPUs, how much of them is in use, and which demands wait",
                                   [place] { return status_of(print_status(*place)); });
  add_place_options(command, *place);
  command.footer(
      "Examples:\n"
      "  pharos status\n"
      "  pharos status --address 10.0.0.1:7400 --token-file ~/cluster.token");
}

}  // namespace pharos::console
