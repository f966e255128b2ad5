#include "leases/far_leases.hpp"

#include <utility>

namespace pharos::node {

async::Async<void> FarLeases::reach_worker(wire::LeaseGranted granted) {
  Asked* const found = questions_.find(granted.number);
  if (found == nullptr) {  // the caller has ended, perhaps before the head was asked
    site_.head.tell(wire::ReturnLease{granted.worker, {}});
    co_return;
  }
  if (found->waits_here && !take_(granted)) co_return;
  if (granted.node == site_.settings.id) {
    const auto asked = questions_.take(granted.number);
    leases_.emplace(granted.worker, Lease{asked->client, granted.node, {}, asked->amounts});
    if (!hand_over_(granted.worker, *asked)) take_back({granted.worker}, asked->client.caller);
    co_return;
  }
  found->reaching = true;
  found->granted = granted.worker;
  const Client client = found->client;
  const Introduction introduction{.purpose = Introduction::Purpose::kServeCaller,
                                  .caller = client.caller.value(),
                                  .worker = granted.worker.value()};
  auto socket = co_await far_nodes_.connect(granted.node, granted.address, introduction);
  const auto asked = questions_.take(granted.number);
  if (!asked) co_return;
  if (!socket) {
    site_.head.tell(wire::ReturnLease{granted.worker, client.caller});
    // Callers retry after a pause when they get kOverloaded.
    questions_.refuse(*asked, Error{ErrorCode::kOverloaded, socket.error().message()});
    co_return;
  }
  leases_.emplace(granted.worker, Lease{client, granted.node, granted.address, asked->amounts});
  std::vector<Fd> descriptors;
  descriptors.push_back(*std::move(socket));
  client.peer->respond(*asked->request, wire::WorkerReady{.worker = granted.worker, .actor = ActorId{}, .remote = true},
                       std::move(descriptors));
}

bool FarLeases::take_back(const wire::ReturnLease& returned, CallerId caller) {
  if (leases_.erase(returned.worker) == 0) return false;
  site_.head.tell(wire::ReturnLease{returned.worker, caller, returned.broken, returned.kill});
  return true;
}

void FarLeases::on_ended(const wire::WorkerEnded& ended) {
  if (const auto held = leases_.extract(ended.worker); !held.empty()) held.mapped().client.peer->send(ended);
}

void FarLeases::on_recalled(const wire::RecallLeases& recalled) const {
  for (const WorkerId worker : recalled.workers) {
    const auto held = leases_.find(worker);
    if (held != leases_.end()) return static_cast<void>(held->second.client.peer->send(recalled));
  }
}

void FarLeases::forget_if(const std::function<bool(const Client&)>& of) {
  std::erase_if(leases_, [&](const auto& entry) { return of(entry.second.client); });
}

}  // namespace pharos::node
