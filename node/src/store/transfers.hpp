#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <pharos/async/blocking_pool.hpp>
#include <pharos/net/reactor.hpp>

#include "node/host.hpp"

namespace pharos::node {

/// Threads that receive and send objects, and files of programs. Each transfer has a connection of its own that carries
/// nothing else.
/// Owned by ReactorHost; called on the thread that polls the reactor, where the callbacks run, too. The reactor
/// outlives this object, and runs callbacks that were posted before its end.
/// Bounds: 4 transfers are received and 16 are sent at once; 256 of each wait. More are refused: a receiver gets
/// kOverloaded, and a sender's connection closes, so that the other node tries again. A transfer ends with kUnavailable
/// when no byte moves for 10 seconds.
class Transfers {
 public:
  explicit Transfers(net::Reactor& reactor);
  /// Breaks off the transfers that are under way, which end with kUnavailable, and waits for their threads. Transfers
  /// that wait are dropped without a callback.
  ~Transfers();

  /// Receives the missing chunks of an object over a connection that was made for it, then runs `done`: with the node
  /// to ask instead, or an error of object_store::ask_for() or receive_chunks(). Chunks that have come stay.
  void receive(Fd socket, const object_store::PullRequest& request, std::shared_ptr<object_store::Chunks> into,
               Host::Pulled done);
  /// Reads from the connection which object the other node wants, asks `make` on the reactor's thread, and sends the
  /// answer, or its error. Waits 60 s for that answer, and then refuses the pull with kUnavailable. PullAnswer::done
  /// runs when the chunks are sent or the connection is broken.
  void send(Fd socket, Host::MakePullAnswer make);

  /// Receives the missing files of a program into `folder`, then runs `done` with the result of
  /// ArrivingProgram::receive().
  void receive_program(Fd socket, std::shared_ptr<ArrivingProgram> into, std::string folder,
                       async::UniqueFunction<void(Result<void>)> done);
  /// Sends the files of a program, also those in `folder`; without an executable, says that its job has ended. Nobody
  /// hears how this ends.
  void send_program(Fd socket, Fd executable, wire::RegisterJob program, std::string folder);

 private:
  class SocketStream;
  struct Asked;
  void send_on_thread(SocketStream& stream, const std::shared_ptr<Host::MakePullAnswer>& make);
  Result<Host::PullAnswer> ask(const object_store::PullRequest& request,
                               const std::shared_ptr<Host::MakePullAnswer>& make);

  net::Reactor& reactor_;
  std::mutex mutex_;
  bool ending_ = false;
  std::set<int> sockets_;  // sockets of the transfers under way
  async::BlockingPool receiving_;
  async::BlockingPool sending_;
};

}  // namespace pharos::node
