#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/net/token_ring.hpp>
#include <pharos/node/introduction.hpp>

namespace pharos::node {

/// The listening sockets of a daemon, and the handshakes of the processes that connect there. Drivers connect to the
/// Unix socket, because they and their node pass descriptors to each other. Nodes connect over TCP. Zygotes and workers
/// never connect: they inherit a socket.
/// Owned by the daemon; on the thread that polls the reactor, which outlives it, as the tokens do. Bounds: kUnprovenMax
/// connections are in their handshake on this machine, and as many from others, so that strangers on the network cannot
/// keep out drivers of this machine. The next connection is closed, and the peer may try again. Failure: a connection
/// is closed, with a line in the log, if it has not proved itself within 5 s; and without one, if it comes from another
/// user of this machine or does not say within 5 s more what it is for. End: close() ends the handshakes, whose
/// connections are closed; then the reactor has to be polled until closed() is true. The destructor closes the
/// listening sockets.
class FrontDoor {
 public:
  /// Callbacks that take processes which have proved that they know the token. They run on the reactor's thread, until
  /// closed() is true.
  struct Guests {
    std::function<void(Fd socket)> driver;
    std::function<void(const Introduction& introduction, Fd socket)> node;
  };

  FrontDoor(net::Reactor& reactor, net::Identity self, const net::TokenRing& tokens, Guests guests);
  ~FrontDoor();

  /// Listens at an address, and returns it with the port that was taken. Fails with kInvalidArgument, kAlreadyExists if
  /// the port or path is in use, or an error of the system. Blocks while a host name is looked up.
  Result<net::Address> listen_at(const std::string& address);
  /// The TCP address at which it listens; empty if there is none.
  const std::string& listening_at() const { return listening_at_; }

  /// Waits, for at most 5 s, until the process at the other end of a socket has proved that it has this role. The
  /// socket stays the caller's. Fails with kDeadlineExceeded, kCancelled or an error of the handshake, which is also
  /// logged.
  async::Async<Result<void>> greet(int socket, net::Role expected);

  void close() { background_.cancel(); }
  bool closed() const { return background_.size() == 0; }

 private:
  static constexpr std::size_t kUnprovenMax = 64;
  class Unproven;

  void accept_all(int listening, bool is_unix);
  async::Async<void> accept_later(int listening, bool is_unix);
  async::Async<void> let_driver_in(Fd socket, std::unique_ptr<Unproven> counted);
  async::Async<void> let_node_in(Fd socket, std::unique_ptr<Unproven> counted);

  net::Reactor& reactor_;
  const net::Identity self_;
  const net::TokenRing& tokens_;
  const Guests guests_;
  std::vector<Fd> listening_;
  std::string listening_at_;
  std::size_t unproven_here_ = 0;
  std::size_t unproven_far_ = 0;
  std::set<int> accept_again_;  // listening sockets at which accept_later() waits
  async::AsyncGroup background_;
};

}  // namespace pharos::node
