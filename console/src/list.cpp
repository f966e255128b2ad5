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

struct ListOptions {
  Place place;
  std::string table;
  std::vector<std::string> filters{};
  std::uint32_t limit = 100;
  std::string format = "table";
};

Result<wire::RowFilter> parse_filter(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Error{ErrorCode::kInvalidArgument, "the filter \"" + text + "\" is invalid",
                 "Write filters like state=alive or name!=x."};
  }
  const bool is_not = text[equals - 1] == '!';
  return wire::RowFilter{text.substr(0, equals - (is_not ? 1 : 0)), text.substr(equals + 1), is_not};
}

bool is_of_nodes(const std::string& table) {
  return table == "workers" || table == "tasks" || table == "objects";
}

Result<RowsOfNodes> find_rows(const ListOptions& options, const wire::ListRows& question) {
  if (!is_of_nodes(options.table)) {
    PHAROS_TRY(wire::Rows rows, rows_of(ask(options.place, question)));
    return RowsOfNodes{.rows = std::move(rows), .silent = {}};
  }
  PHAROS_TRY(NodeConnection asked, NodeConnection::connect(options.place));
  PHAROS_TRY(const std::set<NodeId> nodes, nodes_of_cluster(asked));
  PHAROS_TRY(RowsOfNodes found, rows_of_each(asked, nodes, question, kColumnsOfNodes));
  if (found.rows.rows.size() > options.limit) found.rows.rows.resize(options.limit);
  return found;
}

Result<void> print_list(const ListOptions& options) {
  wire::ListRows question{.table = options.table, .filters = {}, .limit = options.limit};
  for (const std::string& text : options.filters) {
    PHAROS_TRY(wire::RowFilter filter, parse_filter(text));
    question.filters.push_back(std::move(filter));
  }
  PHAROS_TRY(const RowsOfNodes found, find_rows(options, question));
  const auto& [rows, silent] = found;
  if (rows.rows.empty() && !silent.empty()) return nodes_are_silent(silent);
  const std::uint64_t left_out = rows.matching - std::min<std::uint64_t>(rows.matching, rows.rows.size());
  const std::string more = "… and " + std::to_string(left_out) + " more; --limit shows more\n";
  if (options.format == "json") {
    print_json(rows);
    if (left_out != 0) std::cerr << more;
  } else if (rows.rows.empty()) {
    std::cout << "no " << options.table << (options.filters.empty() ? "" : " like that") << '\n';
  } else {
    print_table(rows);
    if (left_out != 0) std::cout << more;
  }
  if (!silent.empty()) return nodes_are_silent(silent);
  return {};
}

}  // namespace

void add_list(Commands& commands) {
  const auto options = std::make_shared<ListOptions>();
  CLI::App& command = commands.add("list", "Lists nodes, jobs, actors, placement groups, workers, tasks or objects",
                                   [options] { return status_of(print_list(*options)); });
  one_of(command.add_option("table", options->table, "What to list"),
         {"nodes", "actors", "groups", "jobs", "workers", "tasks", "objects"})
      ->required();
  command
      .add_option("--filter", options->filters,
                  "Only rows in which the column has this value; may be given several times")
      ->type_name("COLUMN=VALUE");
  command.add_option("--limit", options->limit, "At most so many of these rows")
      ->type_name("NUMBER")
      ->check(CLI::PositiveNumber.description(""))
      ->capture_default_str();
  add_format_option(command, options->format);
  add_place_options(command, options->place);
  command.footer(
      "Tasks are the tasks and calls that run now. Workers are the processes that run them, and those of actors. Of "
      "each node the 1000 largest objects are listed.\n"
      "Examples:\n"
      "  pharos list nodes\n"
      "  pharos list actors --filter state=alive --filter 'name!=monitor' --limit 20\n"
      "  pharos list tasks --filter node=1f0c5a7d93b2e846\n"
      "  pharos list actors --format json | jq '.[].node'");
}

}  // namespace pharos::console
