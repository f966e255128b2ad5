#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <pharos/net/peer.hpp>

#include "worker/incoming_calls.hpp"
#include "worker/workplace.hpp"

namespace pharos::actors {

/// The serving side of a worker: takes the connections of callers, whose calls share one Workplace, and remembers
/// callers on other machines from one connection to the next. Made by the worker process, which reads the messages of
/// the node for it. Any thread, unless a function says otherwise. End: stop() ends the calls. In a worker process it is
/// never destroyed.
class CallServer final : public IncomingCalls::Owner {
 public:
  explicit CallServer(const std::shared_ptr<Platform>& platform) : workplace_{platform} {}

  Workplace& workplace() { return workplace_; }
  const std::shared_ptr<detail::Caller>& caller() const { return workplace_.caller(); }

  /// Handles a message of the node: a caller to serve, an actor to construct, or a message for Caller.
  void on_node_message(const std::shared_ptr<net::Peer>& node, net::Parcel parcel);
  /// Ends the work: no call begins any more, and calls that have begun see stopping() and may go on for `grace`. Then
  /// the actor's destructor runs. Returns false if a call still runs; then the destructor has not run.
  bool stop(Duration grace = {});
  /// For a process that does not end after stop() (the simulator): wakes the suspended calls, which then run to their
  /// end.
  void end_suspended();

  /// Removes a caller's connection, which has ended. Calls that came before still run.
  void forget(const IncomingCalls& incoming) override;

 private:
  void serve(wire::ServeCaller caller, Fd socket);
  void forget_if_away(const std::shared_ptr<RemoteCaller>& caller);

  Workplace workplace_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<IncomingCalls>> connections_;
  std::unordered_map<CallerId, std::shared_ptr<RemoteCaller>> remote_callers_;
  std::unordered_map<CallerId, std::uint64_t>
      forgotten_callers_;  // remote callers that were forgotten, with the number of their next call
};

}  // namespace pharos::actors
