#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <pharos/async/blocking_pool.hpp>
#include <pharos/net/reactor.hpp>

#include "host.hpp"

namespace pharos::node {

/// Threads that receive and send objects and programs, each over a connection of its own that carries nothing else.
/// Owned by ReactorHost; called on the thread that polls the reactor, where it also calls back. Bounded: so many at
/// once, and so many that wait; what is more is refused. Every wait for the other end ends.
class Transfers {
 public:
  explicit Transfers(net::Reactor& reactor);
  /// Breaks off what is under way.
  ~Transfers();

  void receive(Fd socket, const object_store::Wish& wish, std::shared_ptr<object_store::Chunks> into,
               Host::Pulled done);
  void send(Fd socket, Host::MakeOffer make);

  void receive_program(Fd socket, std::shared_ptr<ArrivingProgram> into, std::string folder,
                       async::UniqueFunction<void(Result<void>)> done);
  void send_program(Fd socket, Fd executable);

 private:
  class SocketStream;
  struct Asked;
  void send_on_thread(SocketStream& stream, const std::shared_ptr<Host::MakeOffer>& make);
  Result<Host::Offer> ask(const object_store::Wish& wish, const std::shared_ptr<Host::MakeOffer>& make);

  net::Reactor& reactor_;
  std::mutex mutex_;
  bool ending_ = false;
  std::set<int> sockets_;  // of streams under way
  async::BlockingPool receiving_;
  async::BlockingPool sending_;
};

}  // namespace pharos::node
