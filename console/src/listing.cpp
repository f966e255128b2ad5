#include "listing.hpp"

#include <algorithm>
#include <array>
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
    return Error{ErrorCode::kInvalidArgument, "the filter \"" + text + "\" is invalid",
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

/// Returns whether the cells of the column are numbers, if they are not empty.
bool is_of_numbers(const std::string& column) {
  constexpr std::array kNumbers{"pid", "incarnation", "restarts", "seconds", "bytes"};
  return std::find(kNumbers.begin(), kNumbers.end(), column) != kNumbers.end();
}

std::string cell_in_json(const std::string& column, const std::string& cell) {
  if (!is_of_numbers(column)) return in_json(cell);
  if (cell.empty()) return "null";
  return cell.find_first_not_of("0123456789.") == std::string::npos ? cell : in_json(cell);
}

}  // namespace

void print_json(const wire::Rows& rows) {
  std::cout << "[";
  for (const auto& row : rows.rows) {
    std::cout << (&row == &rows.rows.front() ? "\n  {" : ",\n  {");
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::cout << (i == 0 ? "" : ", ") << in_json(rows.columns[i]) << ": " << cell_in_json(rows.columns[i], row[i]);
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

Result<void> print_status(const Place& place) {
  PHAROS_TRY(const wire::Rows nodes, all_rows(place, "nodes", kAllRows));
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

}  // namespace pharos::console
