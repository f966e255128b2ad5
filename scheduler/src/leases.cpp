#include <algorithm>

#include <pharos/scheduler/leases.hpp>

namespace pharos::scheduler {

Result<LeaseEffects> Leases::request(LeaseRequestId request, const Lessee& lessee) {
  if (waiting_.size() >= kWaitingMax) {
    return Error{ErrorCode::kOverloaded, std::to_string(waiting_.size()) + " requests for workers are waiting"};
  }
  if (lessee.nested && workers() >= workers_max_) {
    return Error{ErrorCode::kOverloaded, std::to_string(workers()) + " workers run tasks, and more may not"};
  }
  waiting_.push_back({request, lessee});
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::worker_started(LeaseRequestId request, WorkerId worker) {
  const auto found = starting_.find(request);
  if (found == starting_.end()) return {EndWorker{worker}};  // its lessee has ended meanwhile
  leased_[worker] = {found->second, false};
  starting_.erase(found);
  return {Grant{request, worker}};
}

LeaseEffects Leases::start_failed(LeaseRequestId request) {
  if (starting_.erase(request) == 0) return {};
  --in_use_;
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::blocked(WorkerId worker) {
  const auto found = leased_.find(worker);
  if (found == leased_.end() || std::exchange(found->second.blocked, true)) return {};
  --in_use_;
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::unblocked(WorkerId worker) {
  const auto found = leased_.find(worker);
  if (found != leased_.end() && std::exchange(found->second.blocked, false)) ++in_use_;
  return {};
}

LeaseEffects Leases::returned(WorkerId worker, CallerId lessee, TimePoint now) {
  const auto found = leased_.find(worker);
  if (found == leased_.end() || found->second.lessee.caller != lessee) return {};
  if (!found->second.blocked) --in_use_;
  idle_.push_back({worker, found->second.lessee.job, now});
  leased_.erase(found);
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::worker_ended(WorkerId worker) {
  std::erase_if(idle_, [worker](const Idle& idle) { return idle.worker == worker; });
  const auto found = leased_.find(worker);
  if (found == leased_.end()) return {};
  if (!found->second.blocked) --in_use_;
  leased_.erase(found);
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
  std::erase_if(waiting_, [&](const Waiting& waiting) { return ends(waiting.lessee); });
  in_use_ -=
      static_cast<std::uint32_t>(std::erase_if(starting_, [&](const auto& starting) { return ends(starting.second); }));
  std::erase_if(leased_, [&](const auto& entry) {
    const auto& [worker, leased] = entry;
    if (!ends(leased.lessee)) return false;
    effects.push_back(EndWorker{worker});
    if (!leased.blocked) --in_use_;
    return true;
  });
  return effects;
}

LeaseEffects Leases::tick(TimePoint now) {
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

void Leases::grant_what_fits(LeaseEffects& effects) {
  while (!waiting_.empty() && in_use_ < cpus_ && workers() < workers_max_) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    ++in_use_;
    // The one that was idle for the shortest time has the warmest caches.
    const auto same_job =
        std::find_if(idle_.rbegin(), idle_.rend(), [&](const Idle& idle) { return idle.job == next.lessee.job; });
    if (same_job == idle_.rend()) {
      starting_[next.request] = next.lessee;
      effects.push_back(StartWorker{next.request, next.lessee.job});
      continue;
    }
    leased_[same_job->worker] = {next.lessee, false};
    effects.push_back(Grant{next.request, same_job->worker});
    idle_.erase(std::next(same_job).base());
  }
}

}  // namespace pharos::scheduler
