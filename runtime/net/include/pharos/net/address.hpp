#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/reactor.hpp>

/// Addresses, and sockets that listen and connect. Any thread may call these functions. Where no error code is named,
/// it follows from errno.
namespace pharos::net {

/// The address at which a daemon listens, a plain value: "unix:/path/node.sock" or "127.0.0.1:7000".
struct Address {
  bool unix_socket = false;
  std::string place;  ///< the path, or a numeric IPv4 address
  std::uint16_t port = 0;

  std::string to_string() const;
  /// Returns true for a Unix socket and for 127.x.x.x.
  bool loopback() const;
};

/// Parses "unix:PATH" or "HOST:PORT". Replaces a host name by the host's first IPv4 address, which may ask the network
/// and block until the answer comes. Fails with kInvalidArgument.
Result<Address> parse_address(std::string_view text);
/// The address at which other machines probably reach this one: its first IPv4 address that is not a loopback address,
/// or else its host name. Never fails.
std::string own_place();

/// Makes a listening, non-blocking socket. A Unix socket gets the mode 0600 and may have a path of any length. Fails
/// with kAlreadyExists if the port or path is in use, and with kInvalidArgument if the place is no IPv4 address. The
/// file of a Unix socket stays when the socket is closed. Port 0 takes a free port: see bound_address().
Result<Fd> listen_at(const Address& address);
/// The address at which a TCP socket listens. Fails for a Unix socket.
Result<Address> bound_address(int socket);
/// The address of the other end of a connected TCP socket. Fails for a Unix socket.
Result<Address> far_address(int socket);

/// Makes a connected, non-blocking socket, and blocks until the deadline at most. Fails with kDeadlineExceeded, with
/// kNotFound if the path of a Unix socket does not exist, and with kUnavailable if nobody listens, or at once if too
/// many connections to a Unix socket wait to be accepted. Over a Unix socket the process at the other end must belong
/// to this user, otherwise this fails with kPermissionDenied.
Result<Fd> connect_to(const Address& address, async::Deadline deadline);
/// The same for a coroutine of any executor, which may also get kCancelled. The reactor outlives the call.
async::Async<Result<Fd>> connect_to(Reactor* reactor, Address address, async::Deadline deadline);

/// Sets the options of a TCP socket between machines. Small writes are sent at once. The socket fails about 10 s after
/// the last sign of life of the other machine, even when nothing is being sent. After a shorter interruption it
/// continues within a second (on kernels before Linux 6.15 it may take longer).
Result<void> set_up_far_socket(int tcp_socket);
/// Lets a socket of set_up_far_socket() fail only after 80 s. For a connection whose user learns in another way that
/// the other end is gone.
Result<void> make_patient(int tcp_socket);

/// Fails with kPermissionDenied unless the process at the other end of a Unix socket belongs to this user.
Result<void> check_peer_is_this_user(int unix_socket);

}  // namespace pharos::net
