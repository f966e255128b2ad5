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

/// The serving side of a worker: takes the connections of callers, whose calls share one Workplace, and remembers an
/// actor's callers on other machines from one connection to the next. Made by the worker process, which reads the
/// messages of the node for it. Any thread, unless a function says otherwise. An actor's caller on another machine is
/// forgotten when it has been away for 90 s: its suspended calls are woken with kCancelled, and its replies and what it
/// has not taken over are dropped. For other callers that happens when the connection ends. What a caller of tasks on
/// another machine has not taken over is kept for 10 s more.
/// End: stop() ends the calls. In a worker process this object is never destroyed. The simulator, which destroys it,
/// calls Caller::end(), stop() and end_suspended() before; no timer of the platform may run after the destructor.
class CallServer final : public IncomingCalls::Owner {
 public:
  explicit CallServer(const std::shared_ptr<Platform>& platform) : workplace_{platform} {}

  Workplace& workplace() { return workplace_; }
  const std::shared_ptr<detail::Caller>& caller() const { return workplace_.caller(); }

  /// Handles a message of the node: a caller to serve, an actor to construct, or a message for Caller. On the strand of
  /// the platform's executor. Why a constructor failed is told to the node.
  void on_node_message(const std::shared_ptr<net::Peer>& node, net::Parcel parcel);
  /// Ends the work: no call begins any more, and calls that have begun see stopping() and may go on for `grace`. Then
  /// the actor's destructor runs. Returns false if a call still runs 100 ms after the grace (300 ms if the actor moves
  /// to another node); then the destructor has not run. Coroutines that are still suspended after the grace are never
  /// resumed. Blocks this thread, which must run no call.
  bool stop(Duration grace = {});
  /// For a process that does not end after stop() (the simulator): wakes the suspended calls, which then run to their
  /// end.
  void end_suspended();

  /// Removes a caller's connection, which has ended. Calls that came before still run.
  void forget(const IncomingCalls& incoming) override;

 private:
  void serve(wire::ServeCaller caller, Fd socket);
  void destroy_actor();
  void forget_if_away(const std::shared_ptr<RemoteCaller>& caller);

  Workplace workplace_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<IncomingCalls>> connections_;
  std::unordered_map<CallerId, std::shared_ptr<RemoteCaller>> remote_callers_;
  std::unordered_map<CallerId, std::uint64_t>
      forgotten_callers_;  // remote callers that were forgotten, with the number of their next call
};

}  // namespace pharos::actors
