#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/wire/message.hpp>

#include "actors/incarnations.hpp"
#include "leases/far_leases.hpp"
#include "leases/lease_book.hpp"
#include "node/clients.hpp"
#include "node/site.hpp"
#include "users/worker_inspection.hpp"
#include "workers/workers.hpp"

namespace pharos::node {

/// Answers callers that ask what their job runs and waits for: workers and the head are asked. The answer never fails.
/// It comes within 700 ms: workers that have not answered by then are in it without `answered`, and without the head's
/// answer the actors of other nodes are missing.
/// Owned by Node; on its strand. Its coroutines run in the node's background group, which ends before it.
class Inspections {
 public:
  Inspections(Site& site, const LeaseBook& book, const Workers& workers, const Incarnations& incarnations,
              const FarLeases& far_leases)
      : site_{site}, book_{book}, workers_{workers}, incarnations_{incarnations}, far_leases_{far_leases} {}

  void answer(const Client& client, std::uint64_t request) { site_.background.spawn(inspect(client, request)); }
  /// Takes the answer of the head. Ignored if it comes too late.
  void on_inspected(wire::Inspected inspected);
  /// The number of questions that are not answered.
  std::size_t size() const { return inspections_.size(); }

 private:
  async::Async<void> inspect(Client client, std::uint64_t request);
  void add_far_workers(const Job& job, std::vector<wire::InspectedWorker>& to) const;
  void note_what_actors_wait_for(const Job& job, std::vector<wire::InspectedWorker>& in) const;

  Site& site_;
  const LeaseBook& book_;
  const Workers& workers_;
  const Incarnations& incarnations_;
  const FarLeases& far_leases_;
  std::unordered_map<std::uint64_t, std::shared_ptr<WorkerInspection>> inspections_;  // by the number for the head
};

}  // namespace pharos::node
