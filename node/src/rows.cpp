#include "rows.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace pharos::node {
namespace {

constexpr std::uint32_t kRowsMax = 10'000;

using Row = std::vector<std::string>;

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

}  // namespace

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
                   "They have " + joined(all.columns) + "."};
    }
    const auto index = static_cast<std::size_t>(column - all.columns.begin());
    std::erase_if(all.rows, [&](const Row& row) { return (row[index] == filter.value) == filter.is_not; });
  }
  all.matching = all.rows.size();
  const std::size_t limit = std::min(asked.limit, kRowsMax);
  std::sort(all.rows.begin(), all.rows.end());
  if (all.rows.size() > limit) all.rows.resize(limit);
  return all;
}

}  // namespace pharos::node
