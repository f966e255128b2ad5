#pragma once

#include <string>

#include <pharos/async/async.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/node/introduction.hpp>
#include <pharos/wire/message.hpp>

#include "node/clients.hpp"
#include "node/far_nodes.hpp"
#include "node/questions.hpp"
#include "node/site.hpp"
#include "workers/hand_over_line.hpp"
#include "workers/workers.hpp"

namespace pharos::node {

/// Connects callers of this node with actors, which are here or at another node, and callers of other nodes with the
/// actors and leased workers of this one. If an actor cannot be reached, the head is asked again where it is. After 15
/// s of such attempts the caller gets the last error, mostly kUnavailable. The caller also gets kUnavailable if too
/// many callers wait for workers here.
/// Owned by Node; on its strand. Its coroutines run in the node's background group, which ends before it. When the node
/// closes, callers that wait get no answer.
class CallPaths {
 public:
  CallPaths(Site& site, Clients& clients, FarNodes& far_nodes, Questions& questions, Workers& workers,
            HandOverLine& hand_overs)
      : site_{site},
        clients_{clients},
        far_nodes_{far_nodes},
        questions_{questions},
        workers_{workers},
        hand_overs_{hand_overs} {}

  /// The head says where an actor is for which a caller of this node has asked. Ignored if nobody waits for it any
  /// more.
  void on_alive(const wire::ActorAlive& alive);
  /// Takes the connection of a caller of another node. Closes it without an answer if the worker is not here, is leased
  /// to another caller, or has too many callers that wait for it; the caller then asks again.
  void serve_far(const Introduction& introduction, Fd socket);

 private:
  void hand_over(WorkerId worker, const wire::ActorAlive& alive, Asked asked);
  async::Async<void> reach(wire::ActorAlive alive);
  void ask_again(const wire::ActorAlive& alive, const Error& why);

  Site& site_;
  Clients& clients_;
  FarNodes& far_nodes_;
  Questions& questions_;
  Workers& workers_;
  HandOverLine& hand_overs_;
};

}  // namespace pharos::node
