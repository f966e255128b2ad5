#pragma once

#include <cstdint>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/group.hpp>
#include <pharos/net/address.hpp>

namespace pharos::ml {

/// How ranks that nobody has introduced find each other: all of them tell rank 0, which listens at `place`, and has the
/// answer for all when the last one has come. Returns the offers in the order of the ranks.
Result<std::vector<detail::RankOffer>> meet_at(const net::Address& place, std::uint32_t rank, std::uint32_t ranks,
                                               const detail::RankOffer& own, Deadline deadline);

}  // namespace pharos::ml
