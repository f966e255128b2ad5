#include "listing.hpp"

#include <cctype>
#include <cstdio>
#include <iostream>
#include <utility>

#include "table.hpp"

namespace pharos::console {
namespace {

Result<wire::Rows> all_rows(const Place& place, std::string table, std::uint32_t limit) {
  return rows_of(ask(place, wire::ListRows{.table = std::move(table), .filters = {}, .limit = limit}));
}

Result<wire::RowFilter> parse_filter(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Error{ErrorCode::kInvalidArgument, "the filter \"" + text + "\" makes no sense",
                 "Write filters like state=alive or name!=x."};
  }
  const bool is_not = text[equals - 1] == '!';
  return wire::RowFilter{text.substr(0, equals - (is_not ? 1 : 0)), text.substr(equals + 1), is_not};
}

std::string in_json(const std::string& text) {
  std::string quoted{'"'};
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      quoted += escaped;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

void print_json(const wire::Rows& rows) {
  std::cout << "[";
  for (const auto& row : rows.rows) {
    std::cout << (&row == &rows.rows.front() ? "\n  {" : ",\n  {");
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::cout << (i == 0 ? "" : ", ") << in_json(rows.columns[i]) << ": " << in_json(row[i]);
    }
    std::cout << "}";
  }
  std::cout << (rows.rows.empty() ? "]\n" : "\n]\n");
}

namespace {

std::string heading(std::string column) {
  for (char& c : column) c = c == '_' ? ' ' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return column;
}

}  // namespace

void print_table(const wire::Rows& rows) {
  std::vector<std::string> heads;
  for (const std::string& column : rows.columns) heads.push_back(heading(column));
  Table table{std::move(heads)};
  for (const auto& row : rows.rows) {
    std::vector<std::string> cells;
    for (const std::string& cell : row) cells.push_back(cell.empty() ? "-" : cell);
    table.add(std::move(cells));
  }
  table.print();
}

namespace {

std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

Result<void> print_list(const Place& place, const ListOptions& options) {
  wire::ListRows question{.table = options.table, .filters = {}, .limit = options.limit};
  for (const std::string& text : options.filters) {
    PHAROS_TRY(wire::RowFilter filter, parse_filter(text));
    question.filters.push_back(std::move(filter));
  }
  PHAROS_TRY(const wire::Rows rows, rows_of(ask(place, std::move(question))));
  if (options.format == "json") {
    print_json(rows);
    return {};
  }
  if (rows.rows.empty()) {
    std::cout << "no " << options.table << (options.filters.empty() ? "" : " like that") << '\n';
    return {};
  }
  print_table(rows);
  if (rows.matching > rows.rows.size()) {
    std::cout << "… and " << rows.matching - rows.rows.size() << " more; --limit shows more\n";
  }
  return {};
}

Result<void> print_status(const Place& place) {
  PHAROS_TRY(const wire::Rows nodes, all_rows(place, "nodes", kAllRows));
  PHAROS_TRY(const wire::Rows jobs, all_rows(place, "jobs", kAllRows));
  PHAROS_TRY(const wire::Rows pending, all_rows(place, "pending", 20));
  PHAROS_TRY(const wire::Rows records, all_rows(place, "records", kAllRows));
  std::cout << counted(nodes.matching, "node") << ", " << counted(jobs.matching, "program") << "\n\n";
  print_table(nodes);
  std::cout << '\n';
  for (const auto& row : records.rows) {
    if (row[0] == "0") continue;
    std::cout << "Of the head's records " << row[0] << " made no sense and are set aside; its log has their keys.\n";
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

}  // namespace pharos::console
