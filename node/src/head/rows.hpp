#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::node {

// Pure functions, for the parts of head and node that answer users.

constexpr std::uint32_t kRowsMax = 10'000;  // rows in one answer

/// The text of a cell that lists several parts: "zone=a, disk=ssd". A filter matches such a cell if it matches one of
/// the parts.
std::string listed(const std::vector<std::string>& parts);

/// Filters rows, sorts them by their texts, and then cuts them: at most `asked.limit` of them, kRowsMax, and 3 MiB.
/// `matching` counts also those that were cut. A filter of the column "*" matches a row if one of its cells is equal to
/// the value. kInvalidArgument if there is no column of a filter's name. Each row must have a cell for each column.
Result<wire::Rows> select_rows(wire::Rows all, const wire::ListRows& asked);

}  // namespace pharos::node
