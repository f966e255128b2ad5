#include "head/rows.hpp"

#include <algorithm>
#include <string_view>

namespace pharos::node {
namespace {

constexpr std::size_t kBytesMax = 3 << 20;  // of all cells, because the size of a message is bounded
constexpr std::string_view kBetween = ", ";

using Row = std::vector<std::string>;

std::size_t bytes_of(const Row& row) {
  constexpr std::size_t kCellBytes = 16;  // its pointer in the encoded message, and the padding
  std::size_t bytes = kCellBytes;
  for (const std::string& cell : row) bytes += kCellBytes + cell.size();
  return bytes;
}

void cut(std::vector<Row>& rows, std::size_t limit) {
  std::size_t bytes = 0;
  const auto past = std::find_if(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(std::min(limit, rows.size())),
                                 [&](const Row& row) { return (bytes += bytes_of(row)) > kBytesMax; });
  rows.erase(past, rows.end());
}

bool is_or_lists(std::string_view cell, std::string_view value) {
  for (std::string_view rest = cell; cell != value; rest.remove_prefix(rest.find(kBetween) + kBetween.size())) {
    if (rest.substr(0, rest.find(kBetween)) == value) return true;
    if (rest.find(kBetween) == std::string_view::npos) return false;
  }
  return true;
}

}  // namespace

std::string listed(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text.append(text.empty() ? "" : kBetween).append(part);
  return text;
}

Result<wire::Rows> select_rows(wire::Rows all, const wire::ListRows& asked) {
  for (const wire::RowFilter& filter : asked.filters) {
    if (filter.column == "*") {
      std::erase_if(all.rows, [&](const Row& row) {
        return (std::find(row.begin(), row.end(), filter.value) != row.end()) == filter.is_not;
      });
      continue;
    }
    const auto column = std::find(all.columns.begin(), all.columns.end(), filter.column);
    if (column == all.columns.end()) {
      return Error{ErrorCode::kInvalidArgument, asked.table + " have no \"" + filter.column + "\"",
                   "They have " + listed(all.columns) + "."};
    }
    const auto index = static_cast<std::size_t>(column - all.columns.begin());
    std::erase_if(all.rows, [&](const Row& row) { return is_or_lists(row[index], filter.value) == filter.is_not; });
  }
  all.matching = std::max<std::size_t>(all.matching, all.rows.size());
  std::sort(all.rows.begin(), all.rows.end());
  cut(all.rows, std::min(asked.limit, kRowsMax));
  return all;
}

}  // namespace pharos::node
