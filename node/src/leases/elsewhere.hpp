#pragma once

#include <cstddef>
#include <functional>

#include <pharos/async/executor.hpp>
#include <pharos/scheduler/fleet.hpp>
#include <pharos/scheduler/leases.hpp>
#include <pharos/scheduler/remote_requests.hpp>

namespace pharos::node {

/// Requests that may be served at another node. Such a request keeps its place in the line here while the head is asked
/// for room elsewhere, and takes whichever comes first. scheduler::RemoteRequests decides which requests the head is
/// asked for; this class decides when: 10 ms after the request began to wait, then in rounds, every 100 ms.
/// Owned by TaskLeases; on the node's strand. Its timers use it, so the executor has to stop before the destructor,
/// which asks and answers nobody.
class Elsewhere {
 public:
  /// Returns whether a request still waits in the line here.
  using Waits = std::function<bool(scheduler::LeaseRequestId request)>;
  /// Asks the head for a request. The answer is reported by found_room(), found_none() or forget().
  using Ask = std::function<void(scheduler::LeaseRequestId request)>;

  Elsewhere(async::Executor& executor, Waits waits, Ask ask);

  /// Takes a request that waits here and may be served by any node.
  void add(const scheduler::Demand& demand, scheduler::LeaseRequestId request);
  /// The answers of the head. A request for which the head was not asked is ignored.
  void found_room(scheduler::LeaseRequestId request) { remote_requests_.found_room(request); }
  void found_none(scheduler::LeaseRequestId request) { remote_requests_.found_none(request); }
  void forget(scheduler::LeaseRequestId request) { remote_requests_.forget(request); }
  /// Asks for all requests for which the head may be asked now.
  void look();
  /// The number of requests for which the head is asked at the moment.
  std::size_t asked() const { return remote_requests_.asked(); }

 private:
  void begin_rounds();

  async::Executor& executor_;
  const Ask ask_;
  scheduler::RemoteRequests remote_requests_;
  bool looks_ = false;       // a timer for look() is set
  bool has_rounds_ = false;  // a timer for the next round is set
};

}  // namespace pharos::node
