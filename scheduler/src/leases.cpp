#include <algorithm>
#include <map>
#include <unordered_set>

#include <pharos/scheduler/leases.hpp>

namespace pharos::scheduler {
namespace {

Allotment cpus_of(const Allotment& allotment) {
  return {Resources{{{"cpu", allotment.amounts.cpus()}}}, {}};
}

}  // namespace

Result<LeaseEffects> Leases::request(LeaseRequestId request, const Lessee& lessee, const Resources& demand,
                                     TimePoint now) {
  now_ = now;
  if (waiting_.size() >= kWaitingMax) {
    return Error{ErrorCode::kOverloaded, std::to_string(waiting_.size()) + " requests for workers are waiting",
                 "get() some results before submitting more."};
  }
  if (lessee.nested && demand.only_cpus() && workers() >= workers_max_) {
    return too_many();
  }
  waiting_.push(demand, {request, lessee, now});
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

std::optional<LeaseEffects> Leases::withdraw(LeaseRequestId request) {
  const std::size_t waited = waiting_.size();
  waiting_.erase_if([request](const Resources&, const Waiting& waiting) { return waiting.request == request; });
  if (waiting_.size() == waited) return std::nullopt;
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::worker_started(LeaseRequestId request, WorkerId worker) {
  const auto found = starting_.find(request);
  if (found == starting_.end()) return {EndWorker{worker}};  // the lessee has ended meanwhile
  found->second.since = now_;
  leased_[worker] = std::move(found->second);
  starting_.erase(found);
  return {Grant{request, worker}};
}

LeaseEffects Leases::start_failed(LeaseRequestId request) {
  const auto failed = starting_.extract(request);
  if (failed.empty()) return {};
  ledger_.give_back(failed.mapped().allotment);
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::blocked(WorkerId worker) {
  const auto found = leased_.find(worker);
  if (found == leased_.end() || std::exchange(found->second.blocked, true)) return {};
  ledger_.give_back(cpus_of(found->second.allotment));
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::unblocked(WorkerId worker) {
  const auto found = leased_.find(worker);
  if (found == leased_.end() || !std::exchange(found->second.blocked, false)) return {};
  ledger_.take(cpus_of(found->second.allotment));
  return {};
}

LeaseEffects Leases::returned(WorkerId worker, CallerId lessee, TimePoint now) {
  const auto found = leased_.find(worker);
  if (found == leased_.end() || found->second.lessee.caller != lessee) return {};
  now_ = now;
  note_returned(found->second);
  LeaseEffects effects;
  const bool ends = end_lease(worker, found->second) || closed_;
  if (ends) {
    effects.push_back(EndWorker{worker});
  } else {
    const Lessee& its = found->second.lessee;
    idle_.push_back({worker, its.job, its.environment, now});
  }
  leased_.erase(found);
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::worker_ended(WorkerId worker) {
  std::erase_if(idle_, [worker](const Idle& idle) { return idle.worker == worker; });
  if (const auto found = leased_.find(worker); found != leased_.end()) {
    note_returned(found->second);
    end_lease(worker, found->second);
    leased_.erase(found);
  }
  if (const auto ended = ending_.extract(worker); !ended.empty()) ledger_.give_back(ended.mapped());
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::lessee_ended(CallerId lessee) {
  auto effects = end_leases_if([lessee](const Lessee& each) { return each.caller == lessee; });
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::job_ended(JobId job) {
  auto effects = end_leases_if([job](const Lessee& each) { return each.job == job; });
  std::erase_if(idle_, [&](const Idle& idle) {
    if (idle.job == job) effects.push_back(EndWorker{idle.worker});
    return idle.job == job;
  });
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::end_leases_if(const std::function<bool(const Lessee&)>& ends) {
  LeaseEffects effects;
  waiting_.erase_if([&](const Resources&, const Waiting& waiting) { return ends(waiting.lessee); });
  std::erase_if(starting_, [&](const auto& entry) {
    if (!ends(entry.second.lessee)) return false;
    ledger_.give_back(entry.second.allotment);
    return true;
  });
  std::erase_if(leased_, [&](const auto& entry) {
    const auto& [worker, leased] = entry;
    if (!ends(leased.lessee)) return false;
    note_returned(leased);
    effects.push_back(EndWorker{worker});
    end_lease(worker, leased);
    return true;
  });
  return effects;
}

/// Returns whether the worker's process has to end before the resources of the lease are free.
bool Leases::end_lease(WorkerId worker, const Leased& leased) {
  if (leased.blocked) ledger_.take(cpus_of(leased.allotment));
  if (leased.allotment.gpus.empty()) {
    ledger_.give_back(leased.allotment);
    return false;
  }
  ending_.emplace(worker, leased.allotment);
  return true;
}

LeaseEffects Leases::reserve(ReservationId reservation, const Allotment& allotment, TimePoint now) {
  now_ = now;
  reserving_.push_back({reservation, allotment, now});
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::release(ReservationId reservation) {
  std::erase_if(reserving_, [reservation](const Reserving& each) { return each.reservation == reservation; });
  if (const auto held = reserved_.extract(reservation); !held.empty()) ledger_.give_back(held.mapped());
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::close(TimePoint now) {
  closed_ = true;
  now_ = now;
  LeaseEffects effects;
  for (const Idle& idle : std::exchange(idle_, {})) effects.push_back(EndWorker{idle.worker});
  waiting_.erase_if([&](const Resources&, const Waiting& waiting) {
    effects.push_back(Refuse{waiting.request, Error{ErrorCode::kOverloaded, "its bundle was given up"}});
    return true;
  });
  std::ranges::move(recall(now), std::back_inserter(effects));
  return effects;
}

LeaseEffects Leases::end_idle_in_environments() {
  LeaseEffects effects;
  std::erase_if(idle_, [&](const Idle& idle) {
    if (!idle.environment.empty()) effects.push_back(EndWorker{idle.worker});
    return !idle.environment.empty();
  });
  return effects;
}

LeaseEffects Leases::tick(TimePoint now) {
  now_ = now;
  LeaseEffects effects;
  while (!idle_.empty() && now - idle_.front().since >= idle_time_) {
    effects.push_back(EndWorker{idle_.front().worker});
    idle_.pop_front();
  }
  return effects;
}

std::optional<CallerId> Leases::lessee_of(WorkerId worker) const {
  const auto found = leased_.find(worker);
  return found == leased_.end() ? std::nullopt : std::optional{found->second.lessee.caller};
}

Resources Leases::held_by(WorkerId worker) const {
  if (const auto ending = ending_.find(worker); ending != ending_.end()) return ending->second.amounts;
  const auto found = leased_.find(worker);
  if (found == leased_.end()) return {};
  const Leased& leased = found->second;
  Resources held = leased.allotment.amounts;
  if (leased.blocked) held -= cpus_of(leased.allotment).amounts;
  return held;
}

Resources Leases::tasks() const {
  Resources sum = ledger_.total();
  sum -= ledger_.left();
  for (const auto& [reservation, allotment] : reserved_) sum -= allotment.amounts;
  return sum;
}

// More CPUs than there are may be taken, by workers that went on after they had waited. So for workers CPUs are not
// checked.
std::string Leases::check() const {
  std::string wrong;
  ResourceLedger expected = all_;  // less all allotments
  std::map<std::uint32_t, std::int64_t> devices;
  const auto take = [&](const Allotment& allotment, bool with_cpus) {
    Allotment scarce = allotment;
    if (!with_cpus) scarce.amounts -= cpus_of(allotment).amounts;
    if (!expected.fits(scarce)) wrong += scarce.amounts.to_string() + " is given twice\n";
    expected.take(allotment);
    for (const GpuShare& share : allotment.gpus) {
      if ((devices[share.index] += share.amount) > Resources::kWhole) wrong += "a GPU is given twice\n";
    }
  };
  for (const auto& [reservation, allotment] : reserved_) take(allotment, true);
  for (const auto& [request, leased] : starting_) take(leased.allotment, false);
  std::unordered_set<WorkerId> workers;
  const auto note = [&](WorkerId worker) {
    if (!workers.insert(worker).second) wrong += "worker " + pharos::to_string(worker) + " is there twice\n";
  };
  for (const auto& [worker, leased] : leased_) {
    note(worker);
    take(leased.allotment, false);
    if (leased.blocked) expected.give_back(cpus_of(leased.allotment));
  }
  for (const auto& [worker, allotment] : ending_) {
    note(worker);
    take(allotment, false);
  }
  for (const Idle& idle : idle_) note(idle.worker);
  if (ledger_ == expected) return wrong;
  return wrong + ledger_.left().to_string() + " is left, and " + expected.left().to_string() + " should be\n";
}

void Leases::grant_what_fits(LeaseEffects& effects) {
  Resources room = ledger_.left();  // what is left after all that is set aside
  std::erase_if(reserving_, [&](const Reserving& entry) {
    const auto& [reservation, allotment, since] = entry;
    const bool fits = allotment.amounts.fits_in(room) && ledger_.fits(allotment);
    room -= allotment.amounts;
    if (!fits) return false;
    ledger_.take(allotment);
    reserved_.emplace(reservation, allotment);
    effects.push_back(Reserved{reservation});
    return true;
  });
  waiting_.serve([&](const Resources& demand, const Waiting& next) {
    // Requests for more than CPUs are limited by their other resources.
    if (workers() >= workers_max_ && demand.only_cpus()) return false;
    const bool fits = demand.fits_in(room) && ledger_.fits(demand);
    room -= demand;
    if (fits) grant(next, demand, effects);
    return fits;
  });
  // All the workers may wait for tasks of these requests.
  if (workers() < workers_max_) return;
  waiting_.erase_if([&](const Resources& demand, const Waiting& waiting) {
    const bool may_run_itself = waiting.lessee.nested && demand.only_cpus();
    if (may_run_itself) effects.push_back(Refuse{waiting.request, too_many()});
    return may_run_itself;
  });
}

Error Leases::too_many() const {
  return {ErrorCode::kOverloaded, std::to_string(workers()) + " workers run tasks, which is the limit",
          "Have fewer tasks wait for tasks at once, or give the cluster more CPUs."};
}

void Leases::grant(const Waiting& next, const Resources& demand, LeaseEffects& effects) {
  Leased leased{next.lessee, ledger_.take(demand), now_};
  // The worker that was idle for the shortest time has the warmest caches.
  const auto idle = std::find_if(idle_.rbegin(), idle_.rend(), [&](const Idle& each) {
    return each.job == next.lessee.job && demand.gpus() == 0 && each.environment == next.lessee.environment;
  });
  if (idle == idle_.rend()) {
    effects.emplace_back(StartWorker{next.request, next.lessee.job, leased.allotment.gpus, next.lessee.environment});
    starting_[next.request] = std::move(leased);
    return;
  }
  leased_[idle->worker] = std::move(leased);
  effects.push_back(Grant{next.request, idle->worker});
  idle_.erase(std::next(idle).base());
}

}  // namespace pharos::scheduler
