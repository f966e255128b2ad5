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

/// The address where rank 0 listens, and the secret of the ranks.
struct MeetingPlace {
  net::Address address{};
  /// The secret that ranks prove to know. It may be any value if the address is a Unix socket in a folder that only
  /// processes of this user can enter.
  net::Key token{};
};
/// The result of meet_at(), which is the same for all ranks.
struct Met {
  std::vector<detail::RankOffer> offers{};  ///< By rank.
  detail::RankKey key{};                    ///< A new key of this group.
};
/// Makes this rank's offer. `host` is the address where other machines reach this rank; empty if the ranks meet at a
/// Unix socket.
using MakeOffer = std::function<Result<detail::RankOffer>(const std::string& host)>;

/// Lets ranks find each other that were started separately: each sends its offer to rank 0, and when the last one has
/// come rank 0 sends all offers to all ranks. Called by Communicator::from_environment(); blocks the calling thread, at
/// most until a second after the deadline. kDeadlineExceeded if ranks are missing, kInvalidArgument if ranks disagree
/// about their number or two have the same number: rank 0 and the ranks that have come then fail with the same error.
/// kPermissionDenied for a rank with another token, which rank 0 ignores. kUnavailable or kDeadlineExceeded if rank 0
/// dies. At rank 0 kAlreadyExists if another process listens at the address. Errors of `make` are returned as they are.
/// Nothing is left open afterwards: rank 0 also removes the file of its Unix socket.
Result<Met> meet_at(const MeetingPlace& place, std::uint32_t rank, std::uint32_t ranks, const MakeOffer& make,
                    Deadline deadline);

}  // namespace pharos::ml
