#include <algorithm>
#include <chrono>

#include "node/descriptions.hpp"
#include "node/node_records.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kInspectTime = 700ms;  // for workers to answer; less than the asking caller waits

}  // namespace

async::Async<void> Node::inspect(Node* self, Client client, std::uint64_t request) {
  const auto inspection = std::make_shared<Inspection>();
  auto in_use = self->leases_.total();
  in_use -= self->leases_.left();
  inspection->answer.in_use = in_use.amounts();
  inspection->answer.total = self->leases_.total().amounts();
  const std::uint64_t number = ++self->last_number_;
  self->inspections_.emplace(number, inspection);
  self->tell_head(wire::Inspect{{client.job->id, client.caller, number}});
  const auto deadline = async::Deadline::after(kInspectTime, self->executor_.now());
  auto& workers = inspection->answer.workers;
  for (const auto& [id, worker] : self->workers_) {
    if (worker->job != client.job) continue;
    workers.push_back({.worker = id,
                       .actor = worker->actor,
                       .label = worker->label,
                       .pid = worker->pid,
                       .amounts = self->leases_.held_by(id).amounts()});
    if (worker->control == nullptr) continue;
    ++inspection->missing;
    self->background_.spawn(inspect_worker(inspection, worker, deadline));
  }
  // Workers that have not answered in time are listed without `answered`.
  [[maybe_unused]] const auto all = co_await inspection->done.wait(deadline);
  self->inspections_.erase(number);
  for (wire::InspectedWorker& actor : inspection->actors) {
    const auto here =
        std::find_if(workers.begin(), workers.end(), [&](const auto& each) { return each.actor == actor.actor; });
    if (here != workers.end()) {
      here->state = std::move(actor.state);
      here->amounts = std::move(actor.amounts);
    } else {
      workers.push_back(std::move(actor));
    }
  }
  self->add_far_workers(*client.job, workers);
  self->note_what_actors_wait_for(*client.job, workers);
  client.peer->respond(request, inspection->answer);
}

wire::InspectedStore Node::inspect_store() const {
  wire::InspectedStore store = store_.inspect();
  for (wire::InspectedProcess& process : store.processes) {
    const auto client = std::find_if(clients_.begin(), clients_.end(),
                                     [&](const auto& each) { return each.second.caller == process.caller; });
    if (client == clients_.end()) continue;  // the process has outlived its Runtime
    if (const auto& worker = client->second.worker) {
      process.pid = worker->pid;
      process.label = worker->label;
    } else {
      process.label = client->second.job->program.executable;
    }
  }
  return store;
}

void Node::add_far_workers(const Job& job, std::vector<wire::InspectedWorker>& to) const {
  for (const auto& [worker, lease] : far_leases_) {
    if (lease.client.job->id != job.id) continue;
    to.push_back({.worker = worker, .amounts = lease.amounts, .elsewhere = describe_node(lease.node, lease.address)});
  }
}

// Such an actor has its place on this node, but tasks still use the resources.
void Node::note_what_actors_wait_for(const Job& job, std::vector<wire::InspectedWorker>& in) const {
  for (const auto& [reservation, starting] : starting_) {
    if (starting.begun || starting.start.job != job.id) continue;
    const scheduler::Resources demand{starting.start.amounts};
    for (wire::InspectedWorker& actor : in) {
      if (actor.actor != starting.start.actor || actor.worker) continue;
      actor.state = "it waits for resources that tasks use: " + demand.use(leases_.total(), leases_.left());
    }
  }
}

async::Async<void> Node::inspect_worker(std::shared_ptr<Inspection> inspection, std::shared_ptr<Worker> worker,
                                        async::Deadline deadline) {
  wire::Message ask = wire::Inspect{};
  const auto answer = co_await worker->control->request(std::move(ask), std::vector<Fd>{}, deadline);
  const auto* const inspected = answer ? std::get_if<wire::Inspected>(&answer->message) : nullptr;
  if (inspected != nullptr && inspected->workers.size() == 1) {
    const wire::InspectedWorker& told = inspected->workers.front();
    for (wire::InspectedWorker& entry : inspection->answer.workers) {
      if (entry.worker != worker->id) continue;
      entry.answered = true;
      entry.function = told.function;
      entry.nanoseconds = told.nanoseconds;
      entry.caller = told.caller;
      entry.number = told.number;
      entry.waits = told.waits;
      entry.may_run_again = told.may_run_again;
    }
  }
  inspection->take_one();
}

}  // namespace pharos::node
