#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::node {

constexpr std::uint32_t kRowsMax = 10'000;  // of one answer

/// What a cell that lists several things says: "zone=a, disk=ssd". A filter holds for such a cell if it does for one of
/// these.
std::string listed(const std::vector<std::string>& parts);

/// The rows that were asked for: in order, filtered before they are cut; `matching` may say that there are more. A
/// filter of the column "*" holds for a row if it does for one of its cells. kInvalidArgument: there is no such column.
Result<wire::Rows> select_rows(wire::Rows all, const wire::ListRows& asked);

}  // namespace pharos::node
