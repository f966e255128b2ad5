#include "connections.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
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

bool is_closed(const Fd& socket) {
  pollfd polled{.fd = socket.get(), .events = POLLRDHUP, .revents = 0};
  return socket && ::poll(&polled, 1, 0) == 1;
}
/// Without a word: a rank that leaves in order says so before.
bool has_died(const Fd& socket) {
  std::byte word{};
  return is_closed(socket) && ::recv(socket.get(), &word, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

std::vector<int> open_ones(const Connections& connections) {
  std::vector<int> all;
  for (const auto& its : connections) {
    for (const Fd& each : its) {
      if (each && !is_closed(each)) all.push_back(each.get());
    }
  }
  return all;
}

/// The first rank with a socket of which that is so; as many as there are: none.
template <class F>
std::size_t first_of(const Connections& connections, const F& is_so) {
  return static_cast<std::size_t>(
      std::find_if(connections.begin(), connections.end(),
                   [&](const std::vector<Fd>& its) { return std::any_of(its.begin(), its.end(), is_so); }) -
      connections.begin());
}

/// One that was there has died, or it is late.
Result<void> check(const Connections& connections, const std::string& address, Deadline deadline) {
  if (const std::size_t rank = first_of(connections, has_died); rank < connections.size()) {
    return Error{ErrorCode::kActorDied, who(rank) + " has died before all had come to the group",
                 "Begin a new term without it, or with another in its place."};
  }
  if (!deadline.expired(std::chrono::steady_clock::now())) return {};
  const std::size_t rank = first_of(connections, [](const Fd& each) { return !each; });
  return Error{ErrorCode::kDeadlineExceeded, who(rank) + " did not come to the group",
               "See what its process does, and whether it reaches " + address + '.'};
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
    PHAROS_TRY_VOID(check(connections, addresses[rank], deadline));
    auto guest = greeting.next(deadline, open_ones(connections));
    if (!guest) continue;
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
