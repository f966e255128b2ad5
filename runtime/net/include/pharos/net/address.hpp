#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/reactor.hpp>

namespace pharos::net {

/// Where a daemon listens: "unix:/path/node.sock" or "127.0.0.1:7000".
struct Address {
  bool unix_socket = false;
  std::string place;  ///< path, or a numeric IPv4 address
  std::uint16_t port = 0;

  std::string to_string() const;
  bool loopback() const;
};

/// Of a host's name ("host:7000") its first IPv4 address: asks the network for it, perhaps, and waits for the answer.
Result<Address> parse_address(std::string_view text);
/// Where other machines reach this one, as far as it knows: its first IPv4 address that is not the loopback's, or its
/// name.
std::string own_place();

/// A listening socket, non-blocking. A Unix socket is made 0600, at a path of any length; a busy port or path gives
/// kAlreadyExists naming it. Port 0 takes a free one: see bound_address().
Result<Fd> listen_at(const Address& address);
Result<Address> bound_address(int socket);
/// The address of the other end of a connected TCP socket.
Result<Address> far_address(int socket);

/// A connected socket, non-blocking. Over a Unix socket the other side must belong to this user.
Result<Fd> connect_to(const Address& address, async::Deadline deadline);
/// The same for an event loop.
async::Async<Result<Fd>> connect_to(Reactor* reactor, Address address, async::Deadline deadline);

/// Of a TCP socket between machines: sends what is written at once, and fails about 10 s after the other machine has
/// last been heard of, also when nothing is being sent. After a shorter cut it goes on within a second.
Result<void> set_up_far_socket(int tcp_socket);
/// The same socket fails after 80 s only. For a connection whose user hears from elsewhere when its other end is gone.
Result<void> make_patient(int tcp_socket);

/// kPermissionDenied unless the process at the other end of a Unix socket belongs to this user.
Result<void> check_peer_is_this_user(int unix_socket);

}  // namespace pharos::net
