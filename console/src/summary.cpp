#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/byte_count.hpp>

#include "commands.hpp"
#include "rows.hpp"

namespace pharos::console {
namespace {

struct SummaryOptions {
  Place place;
  std::string format = "text";
};

struct Summary {
  wire::Rows nodes;
  wire::Rows actors;
  wire::Rows tasks;
  wire::Rows objects;
  std::string silent;  // a line for each node that did not answer
};

/// Counts rows that are the same in some columns, and may sum a column of bytes. The most frequent come first.
/// kInternal if there is no such column.
Result<wire::Rows> count(const wire::Rows& rows, std::vector<std::string> columns, const std::string& bytes,
                         bool for_people) {
  struct Sum {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::vector<std::string>, Sum> sums;
  const auto place_of = [&](const std::string& column) {
    return static_cast<std::size_t>(std::ranges::find(rows.columns, column) - rows.columns.begin());
  };
  for (const auto& row : rows.rows) {
    std::vector<std::string> cells;
    for (const std::string& column : columns) {
      if (place_of(column) >= row.size()) return Error{ErrorCode::kInternal, "the node sent an invalid answer"};
      cells.push_back(row[place_of(column)]);
    }
    Sum& sum = sums[std::move(cells)];
    ++sum.count;
    if (place_of(bytes) < row.size()) sum.bytes += std::strtoull(row[place_of(bytes)].c_str(), nullptr, 10);
  }
  std::vector<std::pair<std::vector<std::string>, Sum>> all{sums.begin(), sums.end()};
  std::ranges::stable_sort(all, std::greater{}, [](const auto& each) { return each.second.count; });
  wire::Rows table{.columns = std::move(columns)};
  table.columns.emplace_back("count");
  if (!bytes.empty()) table.columns.emplace_back(for_people ? "size" : bytes);
  for (auto& [cells, sum] : all) {
    cells.push_back(std::to_string(sum.count));
    if (!bytes.empty()) cells.push_back(for_people ? to_string(ByteCount{sum.bytes}) : std::to_string(sum.bytes));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Result<Summary> ask_summary(const Place& place) {
  PHAROS_TRY(NodeConnection asked, NodeConnection::connect(place));
  PHAROS_TRY(const std::set<NodeId> nodes, nodes_of_cluster(asked));
  const auto all_of = [](const char* table) {
    return wire::ListRows{.table = table, .filters = {}, .limit = kAllRows};
  };
  Summary summary;
  PHAROS_TRY(summary.nodes, rows_of(asked.ask(all_of("nodes"))));
  PHAROS_TRY(summary.actors, rows_of(asked.ask(all_of("actors"))));
  PHAROS_TRY(RowsOfNodes tasks, rows_of_each(asked, nodes, all_of("tasks"), kColumnsOfNodes));
  PHAROS_TRY(RowsOfNodes objects, rows_of_each(asked, nodes, all_of("objects"), kColumnsOfNodes));
  summary.tasks = std::move(tasks.rows);
  summary.objects = std::move(objects.rows);
  summary.silent = std::move(objects.silent);
  return summary;
}

Result<void> print_summary(const SummaryOptions& options) {
  PHAROS_TRY(const Summary summary, ask_summary(options.place));
  struct Part {
    const char* name;
    const wire::Rows& rows;
    std::vector<std::string> columns;
    std::string bytes{};
  };
  const Part parts[] = {{"nodes", summary.nodes, {"state"}},
                        {"actors", summary.actors, {"name", "state"}},
                        {"tasks", summary.tasks, {"runs"}},
                        {"objects", summary.objects, {"comes_from"}, "bytes"}};
  const bool for_people = options.format == "text";
  for (const Part& part : parts) {
    const bool is_first = &part == parts;
    PHAROS_TRY(const wire::Rows rows, count(part.rows, part.columns, part.bytes, for_people));
    if (!for_people) {
      std::cout << (is_first ? "{\"" : ", \"") << part.name << "\": ";
      print_json(rows);
    } else {
      std::cout << (is_first ? "" : "\n") << part.name << (rows.rows.empty() ? ": none\n" : "\n");
      if (!rows.rows.empty()) print_table(rows);
    }
  }
  if (!for_people) std::cout << "}\n";
  if (!summary.silent.empty()) return nodes_are_silent(summary.silent);
  return {};
}

}  // namespace

void add_summary(Commands& commands) {
  const auto options = std::make_shared<SummaryOptions>();
  CLI::App& command = commands.add(
      "summary", "Counts nodes, actors by name and state, what runs by function, and objects by where they come from",
      [options] { return status_of(print_summary(*options)); });
  add_format_option(command, options->format);
  add_place_options(command, options->place);
  command.footer(
      "Of each node the 1000 largest objects are counted.\n"
      "Examples:\n"
      "  pharos summary\n"
      "  pharos summary --format json | jq '.tasks'");
}

}  // namespace pharos::console
