#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/handshake.hpp>

namespace pharos::ml {

/// By rank: the sockets to that rank; none for this rank.
using Connections = std::vector<std::vector<Fd>>;

/// Connects this rank to all others by `sockets` sockets each, and returns when it has all of them. Called by
/// StreamBackend::make(); blocks the calling thread, at most until the deadline. `addresses` has the address of each
/// rank's listening socket, and `listener` is the socket of this rank. Only the ranks know the key. Fails with
/// kDeadlineExceeded, which names a rank that is missing; with kActorDied if a connected rank dies, or with the error
/// that it tells if it gives up; and, when a rank cannot be reached, with the error of that connection
/// (kPermissionDenied for another key). Ranks that are connected already are told why, and all sockets are closed.
/// Strangers are ignored.
Result<Connections> connect_ranks(const Fd& listener, const std::vector<std::string>& addresses, const net::Key& key,
                                  std::uint32_t rank, std::uint32_t sockets, Deadline deadline);

}  // namespace pharos::ml
