#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "rows.hpp"

namespace pharos::console {
namespace {

constexpr std::uint32_t kWaitingShown = 20;

struct StatusOptions {
  Place place;
  std::string format = "text";
};

Result<wire::Rows> all_rows(const Place& place, std::string table, std::uint32_t limit) {
  return rows_of(ask(place, wire::ListRows{.table = std::move(table), .filters = {}, .limit = limit}));
}

std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

struct Status {
  wire::Rows nodes;
  wire::Rows jobs;
  RowsOfNodes gpus;
  wire::Rows waiting;
  wire::Rows records;
};

/// Asks each node that has GPUs who uses them.
Result<RowsOfNodes> gpus_of(const Place& place, const wire::Rows& nodes) {
  std::set<NodeId> with_gpus;
  for (const auto& row : nodes.rows) {
    if (row[3].find("GPU") != std::string::npos) with_gpus.insert(node_of(row[0]));
  }
  if (with_gpus.empty()) return RowsOfNodes{};
  PHAROS_TRY(NodeConnection asked, NodeConnection::connect(place));
  return rows_of_each(asked, with_gpus, {.table = "gpus", .filters = {}, .limit = kAllRows}, 7);
}

Result<Status> ask_status(const Place& place, std::uint32_t waiting_shown) {
  Status status;
  PHAROS_TRY(status.nodes, all_rows(place, "nodes", kAllRows));
  if (status.nodes.columns.size() < 4) return Error{ErrorCode::kInternal, "the node sent an invalid answer"};
  PHAROS_TRY(status.jobs, all_rows(place, "jobs", kAllRows));
  PHAROS_TRY(status.waiting, all_rows(place, "pending", waiting_shown));
  PHAROS_TRY(status.records, all_rows(place, "records", kAllRows));
  PHAROS_TRY(status.gpus, gpus_of(place, status.nodes));
  return status;
}

void print_for_people(const Status& status) {
  const auto& jobs = status.jobs;
  const auto node = std::find(jobs.columns.begin(), jobs.columns.end(), "node") - jobs.columns.begin();
  const auto ended =
      static_cast<std::uint64_t>(std::count_if(jobs.rows.begin(), jobs.rows.end(), [node](const auto& row) {
        return row[static_cast<std::size_t>(node)].empty();
      }));
  std::cout << counted(status.nodes.matching, "node") << ", " << counted(jobs.matching - ended, "program");
  if (ended != 0) std::cout << ", and detached actors of " << ended << " more";
  std::cout << "\n\n";
  print_table(status.nodes);
  std::cout << '\n';
  const auto& [gpus, silent] = status.gpus;
  if (!gpus.rows.empty()) print_table(gpus);
  if (!silent.empty()) std::cout << "The GPUs of these nodes are not known:" << silent << '\n';
  if (!gpus.rows.empty() || !silent.empty()) std::cout << '\n';
  for (const auto& row : status.records.rows) {
    if (row[0] == "0") continue;
    std::cout << "The head could not use " << row[0]
              << " of its records, and has set them aside; its log lists their keys.\n";
  }
  const wire::Rows& waiting = status.waiting;
  if (waiting.rows.empty()) {
    std::cout << "Nobody waits for resources.\n";
    return;
  }
  std::cout << counted(waiting.matching, "demand") << " that cannot be met now:\n";
  for (const auto& row : waiting.rows) std::cout << "  " << row[0] << ": " << row[1] << '\n';
  if (waiting.matching > waiting.rows.size()) {
    std::cout << "  … and " << waiting.matching - waiting.rows.size() << " more\n";
  }
}

void print_for_programs(const Status& status) {
  std::cout << "{\"nodes\": ";
  print_json(status.nodes);
  std::cout << ", \"jobs\": ";
  print_json(status.jobs);
  std::cout << ", \"gpus\": ";
  print_json(status.gpus.rows);
  std::cout << ", \"waiting\": ";
  print_json(status.waiting);
  std::cout << ", \"records\": ";
  print_json(status.records);
  std::cout << ", \"waiting_count\": " << status.waiting.matching << "}\n";
  if (!status.gpus.silent.empty()) std::cerr << "The GPUs of these nodes are not known:" << status.gpus.silent << '\n';
}

Result<void> print_status(const StatusOptions& options) {
  const bool is_for_programs = options.format == "json";
  PHAROS_TRY(const Status status, ask_status(options.place, is_for_programs ? kAllRows : kWaitingShown));
  if (is_for_programs) {
    print_for_programs(status);
  } else {
    print_for_people(status);
  }
  return {};
}

}  // namespace

void add_status(Commands& commands) {
  const auto options = std::make_shared<StatusOptions>();
  CLI::App& command = commands.add("status", "Shows nodes and GPUs, how much of them is in use, and which demands wait",
                                   [options] { return status_of(print_status(*options)); });
  add_format_option(command, options->format);
  add_place_options(command, options->place);
  command.footer(
      "Examples:\n"
      "  pharos status\n"
      "  pharos status --address 10.0.0.1:7400 --token-file ~/cluster.token\n"
      "  pharos status --format json | jq '.nodes[].state'");
}

}  // namespace pharos::console
