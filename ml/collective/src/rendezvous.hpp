#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/group.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/handshake.hpp>

namespace pharos::ml {

/// Where rank 0 listens.
struct MeetingPlace {
  net::Address address{};
  /// What ranks prove to know. Any, at a Unix socket in a folder that this user's processes alone may enter.
  net::Key token{};
};
/// What all of them know then.
struct Met {
  std::vector<detail::RankOffer> offers{};  ///< in the order of the ranks
  detail::RankKey key{};                    ///< new
};
/// What this rank offers, where others reach it: the host; empty over a Unix socket.
using MakeOffer = std::function<Result<detail::RankOffer>(const std::string& host)>;

/// How ranks that nobody has introduced find each other: all of them tell rank 0, which has the answer for all when the
/// last one has come.
Result<Met> meet_at(const MeetingPlace& place, std::uint32_t rank, std::uint32_t ranks, const MakeOffer& make,
                    Deadline deadline);

}  // namespace pharos::ml
