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

Result<void> print_list(const ListOptions& options) {
  wire::ListRows question{.table = options.table, .filters = {}, .limit = options.limit};
  for (const std::string& text : options.filters) {
    PHAROS_TRY(wire::RowFilter filter, parse_filter(text));
    question.filters.push_back(std::move(filter));
  }
  PHAROS_TRY(const wire::Rows rows, rows_of(ask(options.place, std::move(question))));
  const std::uint64_t left_out = rows.matching - std::min<std::uint64_t>(rows.matching, rows.rows.size());
  const std::string more = "… and " + std::to_string(left_out) + " more; --limit shows more\n";
  if (options.format == "json") {
    print_json(rows);
    if (left_out != 0) std::cerr << more;
    return {};
  }
  if (rows.rows.empty()) {
    std::cout << "no " << options.table << (options.filters.empty() ? "" : " like that") << '\n';
    return {};
  }
  print_table(rows);
  if (left_out != 0) std::cout << more;
  return {};
}

}  // namespace

void add_list(Commands& commands) {
  const auto options = std::make_shared<ListOptions>();
  CLI::App& command = commands.add("list", "Lists nodes, actors, placement groups or jobs",
                                   [options] { return status_of(print_list(*options)); });
  one_of(command.add_option("table", options->table, "What to list"), {"nodes", "actors", "groups", "jobs"})
      ->required();
  command
      .add_option("--filter", options->filters,
                  "Only rows in which the column has this value; may be given several times")
      ->type_name("COLUMN=VALUE");
  command.add_option("--limit", options->limit, "At most so many of these rows")
      ->type_name("NUMBER")
      ->check(CLI::PositiveNumber.description(""))
      ->capture_default_str();
  one_of(command.add_option("--format", options->format, "How to print them"), {"table", "json"})
      ->capture_default_str();
  add_place_options(command, options->place);
  command.footer(
      "Examples:\n"
      "  pharos list nodes\n"
      "  pharos list actors --filter state=alive --filter 'name!=monitor' --limit 20\n"
      "  pharos list actors --format json | jq '.[].node'");
}

}  // namespace pharos::console
