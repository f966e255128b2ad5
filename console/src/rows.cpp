#include "rows.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "table.hpp"

namespace pharos::console {
namespace {

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
  constexpr std::array kNumbers{"pid", "exit_code", "incarnation", "restarts", "seconds", "bytes", "objects", "count"};
  return column.ends_with("_bytes") || std::find(kNumbers.begin(), kNumbers.end(), column) != kNumbers.end();
}

std::string cell_in_json(const std::string& column, const std::string& cell) {
  if (!is_of_numbers(column)) return in_json(cell);
  if (cell.empty()) return "null";
  return cell.find_first_not_of("0123456789.") == std::string::npos ? cell : in_json(cell);
}

std::string heading(std::string column) {
  for (char& c : column) c = c == '_' ? ' ' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return column;
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

}  // namespace pharos::console
