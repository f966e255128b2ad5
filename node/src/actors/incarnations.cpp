#include "actors/incarnations.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "leases/environments.hpp"
#include "leases/task_leases.hpp"
#include "node/demands.hpp"

namespace pharos::node {

Incarnations::Incarnations(Site& site, LeaseBook& book, Jobs& jobs, Workers& workers)
    : site_{site}, book_{book}, jobs_{jobs}, workers_{workers}, bundles_{site, book} {}

void Incarnations::start(wire::StartIncarnation start) {
  const scheduler::ReservationId reservation{site_.head.next_number()};
  const BundleKey key{start.group, start.bundle};
  starting_.emplace(reservation, Starting{std::move(start)});
  if (!key.first) return reserve(reservation);
  switch (bundles_.start_in(key, reservation)) {
    case Bundles::Turn::kNow: return reserve(reservation);
    case Bundles::Turn::kLater: return;
    case Bundles::Turn::kNever: break;
  }
  const wire::StartIncarnation lost = starting_.extract(reservation).mapped().start;
  note_end({lost.actor, lost.incarnation, "its group was removed"}, reservation);
}

/// Asks for the resources of an incarnation: those of the node, or of its bundle, which is held.
void Incarnations::reserve(scheduler::ReservationId reservation) {
  Starting& starting = starting_.at(reservation);
  starting.asked = true;
  const wire::StartIncarnation& start = starting.start;
  scheduler::Leases& leases = *book_.find({start.group, start.bundle});
  book_.apply(leases.reserve(reservation, allotment_of(start.amounts, start.gpus), site_.executor.now()));
}

void Incarnations::on_reserved(scheduler::ReservationId reservation) {
  if (starting_.contains(reservation)) return begin(reservation);
  for (const auto each : bundles_.on_reserved(reservation)) {
    if (starting_.contains(each)) reserve(each);
  }
}

void Incarnations::begin(scheduler::ReservationId reservation) {
  starting_.at(reservation).begun = true;
  site_.background.spawn(start_process(reservation));
}

async::Async<void> Incarnations::start_process(scheduler::ReservationId reservation) {
  const wire::StartIncarnation start = starting_.at(reservation).start;
  const std::vector<std::string> gpus = names_of(site_.settings.machine, shares_of(start.gpus));
  const auto job = jobs_.find(start.job);
  Result<std::shared_ptr<Worker>> worker = Error{ErrorCode::kRuntimeStopped, "the program has ended"};
  bool is_broken = false;
  if (job != nullptr) {
    const auto zygote = co_await find_zygote(&site_, &book_, &jobs_, job, start.environment);
    if (zygote) {
      worker = co_await workers_.start(job, *zygote, start.actor, start.label, start.incarnation, gpus);
    } else {
      worker = zygote.error();
    }
    is_broken = job->broken || (zygote && (*zygote)->broken);
  }
  const auto end_it = starting_.extract(reservation).mapped().end;
  if (!worker) {
    if (is_broken) {  // a restart would fail again
      site_.head.tell(wire::ActorConstructed{start.actor, start.incarnation, worker.error()});
    }
    note_end({start.actor, start.incarnation, worker.error().message()}, reservation);
    co_return;
  }
  construct(**worker, start, reservation, gpus);
  if (end_it) end(*end_it);
}

void Incarnations::construct(Worker& worker, const wire::StartIncarnation& start, scheduler::ReservationId reservation,
                             std::vector<std::string> gpus) {
  Incarnation& runs = worker.incarnation;
  runs.reservation = reservation;
  runs.exclusive = start.exclusive && !site_.settings.head_address.empty();
  runs.may_restart = start.may_restart;
  // The last beat goes first. If the head's order has come too late, the worker finds that beat too old, and ends
  // before it constructs the actor.
  if (runs.exclusive) worker.control->send(last_beat_);
  worker.control->send(wire::ConstructActor{start.actor,
                                            start.incarnation,
                                            start.constructor,
                                            start.arguments,
                                            start.in_pieces,
                                            start.name_space,
                                            {start.amounts, std::move(gpus)},
                                            start.trace,
                                            runs.exclusive});
}

void Incarnations::on_constructed(Worker& worker, const wire::ActorConstructed& constructed) {
  Incarnation& runs = worker.incarnation;
  if (constructed.actor != runs.actor || constructed.incarnation != runs.number) return;
  runs.constructed = !constructed.failure;
  site_.head.tell(constructed);
}

// ---- Ends

void Incarnations::end(const wire::EndIncarnation& end) {
  if (const auto worker = workers_.find(end.actor, end.incarnation)) {
    if (!end.kill) return workers_.end(worker, std::chrono::milliseconds{end.grace_ms}, end.moves);
    return workers_.kill(*worker);
  }
  const auto found = std::find_if(starting_.begin(), starting_.end(), [&](const auto& entry) {
    return entry.second.start.actor == end.actor && entry.second.start.incarnation == end.incarnation;
  });
  if (found == starting_.end()) return;
  if (found->second.begun) {
    found->second.end = end;
    return;
  }
  const scheduler::ReservationId reservation = found->first;
  starting_.erase(found);
  note_end({end.actor, end.incarnation, "the actor was given up before its process could start"}, reservation);
}

void Incarnations::end_unbegun(JobId job) {
  std::vector<wire::EndIncarnation> unbegun;
  for (const auto& [reservation, starting] : starting_) {
    if (starting.start.job == job) unbegun.push_back({starting.start.actor, starting.start.incarnation, true});
  }
  for (const auto& each : unbegun) end(each);
}

void Incarnations::on_worker_ended(const Worker& worker, const std::string& reason) {
  const Incarnation& runs = worker.incarnation;
  // The end of a worker that was never ready is reported by the coroutine that was starting it.
  if (!runs.actor || worker.process.life.state() == WorkerState::kFailed) return;
  note_end({runs.actor, runs.number, reason, !worker.killed_for_memory.empty()}, runs.reservation);
}

void Incarnations::note_end(const wire::IncarnationEnded& ended, scheduler::ReservationId reservation) {
  book_.tell_all([&](scheduler::Leases& leases) { return leases.release(reservation); });
  site_.head.tell(ended);
}

void Incarnations::pass_on_beat(const wire::Beat& beat) {
  last_beat_ = beat;
  for (const auto& [id, worker] : workers_.all()) {
    if (worker->incarnation.exclusive && worker->control != nullptr) worker->control->send(beat);
  }
}

std::string Incarnations::check() const {
  std::string wrong;
  std::size_t expected = bundles_.size() + bundles_.leaving();
  for (const auto& [reservation, starting] : starting_) {
    expected += starting.asked ? 1 : 0;
  }
  for (const auto& [id, worker] : workers_.all()) {
    const Incarnation& runs = worker->incarnation;
    if (!runs.reservation) continue;
    if (!book_.holds(runs.reservation)) {
      wrong += "a process of actor " + to_string(runs.actor) + " has what is not its own\n";
    }
    ++expected;
  }
  const std::size_t there = book_.reservations();
  if (there == expected) return wrong;
  return wrong + std::to_string(there) + " reservations are there, and " + std::to_string(expected) + " should be\n";
}

}  // namespace pharos::node
