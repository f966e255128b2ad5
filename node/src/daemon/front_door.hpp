#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/node/introduction.hpp>

namespace pharos::node {

/// The listening sockets of a daemon, and the handshakes of the processes that connect there. Drivers connect to the
/// Unix socket, because they and their node pass descriptors to each other. Nodes connect over TCP. Zygotes and workers
/// never connect: they inherit a socket.
/// Owned by the daemon; on the thread that polls the reactor. Bounds: kUnprovenMax connections are in their handshake
/// on this machine, and as many from others, so that strangers on the network cannot keep out drivers of this machine.
/// The next connection is closed, and the peer may try again.
/// End: close(); then the reactor has to be polled until closed() is true.
class FrontDoor {
 public:
  /// Processes that have proved that they know the token.
  struct Guests {
    std::function<void(Fd socket)> driver;
    std::function<void(const Introduction& introduction, Fd socket)> node;
  };

  FrontDoor(net::Reactor& reactor, net::Identity self, const net::Key& token, Guests guests);
  ~FrontDoor();

  /// Listens at an address, and returns it with the port that was taken.
  Result<net::Address> listen_at(const std::string& address);
  /// The TCP address, if there is one.
  const std::string& listening_at() const { return listening_at_; }

  /// Waits until the process at the other end of a socket has proved that it has this role.
  static async::Async<Result<void>> greet(FrontDoor* self, int socket, net::Role expected);

  void close() { background_.cancel(); }
  bool closed() const { return background_.size() == 0; }

 private:
  static constexpr std::size_t kUnprovenMax = 64;
  class Unproven;

  void accept_all(int listening, bool is_unix);
  static async::Async<void> let_driver_in(FrontDoor* self, Fd socket, std::unique_ptr<Unproven> counted);
  static async::Async<void> let_node_in(FrontDoor* self, Fd socket, std::unique_ptr<Unproven> counted);

  net::Reactor& reactor_;
  const net::Identity self_;
  const net::Key token_;
  const Guests guests_;
  std::vector<Fd> listening_;
  std::string listening_at_;
  std::size_t unproven_here_ = 0;
  std::size_t unproven_far_ = 0;
  async::AsyncGroup background_;
};

}  // namespace pharos::node
