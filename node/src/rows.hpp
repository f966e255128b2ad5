#pragma once

#include <cstdint>

#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::node {

constexpr std::uint32_t kRowsMax = 10'000;  // of one answer

/// The rows that were asked for: in order, filtered before they are cut; `matching` may say that there are more. A
/// filter of the column "*" holds for a row if it does for one of its cells. kInvalidArgument: there is no such column.
Result<wire::Rows> select_rows(wire::Rows all, const wire::ListRows& asked);

}  // namespace pharos::node
