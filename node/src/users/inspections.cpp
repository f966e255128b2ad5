#include "users/inspections.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "node/descriptions.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kInspectTime = 700ms;  // for workers to answer; less than the asking caller waits

/// Joins what the head says of actors with what is known of the workers here.
void add_actors(std::vector<wire::InspectedWorker> actors, std::vector<wire::InspectedWorker>& to) {
  for (wire::InspectedWorker& actor : actors) {
    const auto here = std::find_if(to.begin(), to.end(), [&](const auto& each) { return each.actor == actor.actor; });
    if (here != to.end()) {
      here->state = std::move(actor.state);
      here->amounts = std::move(actor.amounts);
    } else {
      to.push_back(std::move(actor));
    }
  }
}

}  // namespace

async::Async<void> Inspections::inspect(Client client, std::uint64_t request) {
  const auto inspection = std::make_shared<WorkerInspection>();
  const scheduler::Leases& leases = book_.leases();
  auto in_use = leases.total();
  in_use -= leases.left();
  inspection->answer.in_use = in_use.amounts();
  inspection->answer.total = leases.total().amounts();
  const std::uint64_t number = site_.head.next_number();
  inspections_.emplace(number, inspection);
  site_.head.tell(wire::Inspect{{client.job->id, client.caller, number}});
  const auto deadline = async::Deadline::after(kInspectTime, site_.executor.now());
  auto& workers = inspection->answer.workers;
  for (const auto& [id, worker] : workers_.all()) {
    if (worker->job != client.job) continue;
    workers.push_back({.worker = id,
                       .actor = worker->incarnation.actor,
                       .label = worker->label,
                       .pid = worker->process.pid,
                       .amounts = book_.held_by(id).amounts()});
    if (worker->control == nullptr) continue;
    ++inspection->missing;
    site_.background.spawn(inspect_worker(inspection, worker, deadline));
  }
  // Workers that have not answered in time are listed without `answered`.
  [[maybe_unused]] const auto all = co_await inspection->done.wait(deadline);
  inspections_.erase(number);
  add_actors(std::move(inspection->actors), workers);
  add_far_workers(*client.job, workers);
  note_what_actors_wait_for(*client.job, workers);
  client.peer->respond(request, inspection->answer);
}

void Inspections::on_inspected(wire::Inspected inspected) {
  const auto inspection = inspections_.find(inspected.number);
  if (inspection == inspections_.end()) return;
  inspection->second->actors = std::move(inspected.workers);
  inspection->second->answer.cluster = std::move(inspected.cluster);
  inspection->second->take_one();
}

void Inspections::add_far_workers(const Job& job, std::vector<wire::InspectedWorker>& to) const {
  for (const auto& [worker, lease] : far_leases_.all()) {
    if (lease.client.job->id != job.id || lease.node == site_.settings.id) continue;
    to.push_back({.worker = worker, .amounts = lease.amounts, .elsewhere = describe_node(lease.node, lease.address)});
  }
}

// Such an actor has its place on this node, but tasks still use the resources.
void Inspections::note_what_actors_wait_for(const Job& job, std::vector<wire::InspectedWorker>& in) const {
  for (const auto& [reservation, starting] : incarnations_.starting()) {
    if (starting.begun || starting.start.job != job.id) continue;
    const scheduler::Resources demand{starting.start.amounts};
    const scheduler::Leases* const leases = book_.find({starting.start.group, starting.start.bundle});
    if (leases == nullptr) continue;
    for (wire::InspectedWorker& actor : in) {
      if (actor.actor != starting.start.actor || actor.worker) continue;
      actor.state = "it waits for resources that tasks use: " + demand.use(leases->total(), leases->left());
    }
  }
}

}  // namespace pharos::node
