#include "connections.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include <pharos/net/address.hpp>

#include "greeting.hpp"

namespace pharos::ml {
namespace {

constexpr int kSocketBufferBytes = 4 << 20;

std::string who(std::size_t rank) {
  return "rank " + std::to_string(rank);
}

Result<void> set_up(const Fd& socket) {
  for (const int which : {SO_SNDBUF, SO_RCVBUF}) {
    ::setsockopt(socket.get(), SOL_SOCKET, which, &kSocketBufferBytes, sizeof kSocketBufferBytes);
  }
  return net::set_up_far_socket(socket.get());
}

}  // namespace

Result<Connections> connect_ranks(const Fd& listener, const std::vector<std::string>& addresses, const net::Key& key,
                                  std::uint32_t rank, std::uint32_t sockets, Deadline deadline) {
  const std::size_t ranks = addresses.size();
  Connections connections(ranks);
  for (std::size_t other = 0; other < ranks; ++other) {
    if (other != rank) connections[other].resize(sockets);
  }
  // Each to those before it, and those behind it to it: rank 0 waits for nobody that waits for it.
  for (std::uint32_t other = 0; other < rank; ++other) {
    PHAROS_TRY(const net::Address address, net::parse_address(addresses[other]));
    for (std::uint32_t which = 0; which < sockets; ++which) {
      auto socket = net::connect_to(address, deadline);
      if (!socket) return Error{socket.error()}.with("looking for " + who(other));
      const auto proved = net::initiate(socket->get(), key, {net::Role::kWorker, rank * sockets + which}, deadline);
      if (!proved) return Error{proved.error()}.with("looking for " + who(other));
      PHAROS_TRY_VOID(set_up(*socket));
      connections[other][which] = *std::move(socket);
    }
  }
  Greeting greeting{listener, key, {net::Role::kWorker, rank}};
  for (std::size_t left = (ranks - 1 - rank) * sockets; left > 0;) {
    auto guest = greeting.next(deadline);
    if (!guest) {
      const auto is_there = [](const std::vector<Fd>& its) {
        return std::all_of(its.begin(), its.end(), [](const Fd& each) { return static_cast<bool>(each); });
      };
      const auto missing = std::find_if_not(connections.begin(), connections.end(), is_there);
      return Error{ErrorCode::kDeadlineExceeded,
                   who(static_cast<std::size_t>(missing - connections.begin())) + " did not come to the group",
                   "See what its process does, and whether it reaches " + addresses[rank] + '.'};
    }
    const std::uint64_t other = guest->id / sockets;
    const std::uint64_t which = guest->id % sockets;
    if (other >= ranks || other <= rank || connections[other][which]) continue;
    PHAROS_TRY_VOID(set_up(guest->socket));
    connections[other][which] = std::move(guest->socket);
    --left;
  }
  return connections;
}

}  // namespace pharos::ml
