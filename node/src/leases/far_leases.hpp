#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/wire/message.hpp>

#include "node/far_nodes.hpp"
#include "node/questions.hpp"
#include "node/site.hpp"

namespace pharos::node {

/// Workers that the head has found for callers of this node: at other nodes, or here, in a bundle or because the caller
/// did not ask for this node. Their leases end by way of the head. Messages about unknown workers are ignored. Owned by
/// Node; on its strand. Its coroutines run in the node's background group, which ends before it. The destructor returns
/// no worker.
class FarLeases {
 public:
  struct Lease {
    Client client;  ///< the caller that has leased it
    NodeId node;
    std::string address;
    wire::Amounts amounts;
  };
  /// Another node has granted a request that also waits here. Returns whether the worker is to be reached.
  using TakeFromElsewhere = std::function<bool(const wire::LeaseGranted& granted)>;
  /// Connects a caller with a worker of this node. Returns false if the caller was refused at once.
  using HandOver = std::function<bool(WorkerId worker, const Asked& asked)>;

  FarLeases(Site& site, FarNodes& far_nodes, Questions& questions, TakeFromElsewhere take, HandOver hand_over)
      : site_{site},
        far_nodes_{far_nodes},
        questions_{questions},
        take_{std::move(take)},
        hand_over_{std::move(hand_over)} {}

  /// The head has found a worker for a caller of this node. It is reached, and the caller answered. If it is not
  /// reached within 3 s, the caller gets kOverloaded, and the worker is returned; so it is if nobody waits for it any
  /// more.
  void reach(const wire::LeaseGranted& granted) { site_.background.spawn(reach_worker(granted)); }
  /// A caller gives a worker back. Returns false if it is none of these.
  bool take_back(const wire::ReturnLease& returned, CallerId caller);
  /// The worker is gone. Its lessee is told.
  void on_ended(const wire::WorkerEnded& ended);
  /// Others wait for these workers, all of which are leased by one caller. It is told. Some of the leases may not be
  /// known here yet.
  void on_recalled(const wire::RecallLeases& recalled) const;
  /// Forgets the leases of these clients, which have ended. The head is not told here: it ends their leases by itself.
  void forget_if(const std::function<bool(const Client&)>& of);

  const std::unordered_map<WorkerId, Lease>& all() const { return leases_; }

 private:
  async::Async<void> reach_worker(wire::LeaseGranted granted);

  Site& site_;
  FarNodes& far_nodes_;
  Questions& questions_;
  const TakeFromElsewhere take_;
  const HandOver hand_over_;
  std::unordered_map<WorkerId, Lease> leases_;
};

}  // namespace pharos::node
