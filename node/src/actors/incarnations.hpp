#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/scheduler/leases.hpp>
#include <pharos/wire/message.hpp>

#include "actors/bundles.hpp"
#include "leases/lease_book.hpp"
#include "node/site.hpp"
#include "workers/jobs.hpp"
#include "workers/workers.hpp"

namespace pharos::node {

/// The incarnations of actors that the head starts and ends on this node. The head has given them resources, but tasks
/// may still use these; an incarnation waits for its resources without a limit. The head is told once how each
/// incarnation ends, also if its process could not be started (IncarnationEnded says why). If the program itself cannot
/// run, the head is told first that the constructor has failed, so that the actor is not started again.
/// Owned by Node; on its strand. Its coroutines run in the node's background group, which ends before it. The
/// destructor ends no process.
class Incarnations {
 public:
  /// An incarnation that has no worker yet.
  struct Starting {
    wire::StartIncarnation start;
    std::optional<wire::EndIncarnation> end{};  ///< set if it is to end as soon as it has started
    bool asked = false;                         ///< it has asked for its resources: its bundle is held
    bool begun = false;                         ///< it has them
  };

  Incarnations(Site& site, LeaseBook& book, Jobs& jobs, Workers& workers);

  void start(wire::StartIncarnation start);
  /// Ends an incarnation; ignored if it is not here. One that waits for resources ends at once; one whose process is
  /// being started ends when the process is ready.
  void end(const wire::EndIncarnation& end);
  /// Ends the incarnations of a job that have no process yet, as end() does.
  void end_unbegun(JobId job);
  void hold(const wire::HoldBundle& hold) { bundles_.hold(hold); }
  void release(const wire::ReleaseBundle& release) { bundles_.release({release.group, release.bundle}); }
  /// Gives back the bundles that were released and that nothing uses any more.
  void release_unused() { bundles_.release_unused(); }
  /// The head elsewhere has answered a beat, which is passed on to exclusive actors: they end when they hear no beat
  /// for too long.
  void pass_on_beat(const wire::Beat& beat);

  // ---- Events

  /// A reservation has its resources.
  void on_reserved(scheduler::ReservationId reservation);
  /// A worker has constructed its actor, or has failed to.
  void on_constructed(Worker& worker, const wire::ActorConstructed& constructed);
  /// A worker is gone.
  void on_worker_ended(const Worker& worker, const std::string& reason);

  const std::unordered_map<scheduler::ReservationId, Starting>& starting() const { return starting_; }
  const Bundles& bundles() const { return bundles_; }
  /// For tests, between two events: says which reservations are there without a use, or are missing. Empty if all is
  /// well.
  std::string check() const;

 private:
  void reserve(scheduler::ReservationId reservation);
  void begin(scheduler::ReservationId reservation);
  async::Async<void> start_process(scheduler::ReservationId reservation);
  void construct(Worker& worker, const wire::StartIncarnation& start, scheduler::ReservationId reservation,
                 std::vector<std::string> gpus);
  void note_end(const wire::IncarnationEnded& ended, scheduler::ReservationId reservation);

  Site& site_;
  LeaseBook& book_;
  Jobs& jobs_;
  Workers& workers_;
  Bundles bundles_;
  std::unordered_map<scheduler::ReservationId, Starting> starting_;
  wire::Beat last_beat_;  // the last beat that the head has answered
};

}  // namespace pharos::node
