#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/handshake.hpp>

namespace pharos::ml {

/// By rank, none for this one: that many sockets to each.
using Connections = std::vector<std::vector<Fd>>;

/// Comes back when all ranks have found each other; or fails, also when one that has been found dies or says why it
/// gives up. `addresses`: where they listen, by rank, each at a socket as `listener` is. Nobody else knows the key.
Result<Connections> connect_ranks(const Fd& listener, const std::vector<std::string>& addresses, const net::Key& key,
                                  std::uint32_t rank, std::uint32_t sockets, Deadline deadline);

}  // namespace pharos::ml
