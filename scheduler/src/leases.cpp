#include <algorithm>

#include <pharos/scheduler/leases.hpp>

namespace pharos::scheduler {

Result<LeaseEffects> Leases::request(LeaseRequestId request, JobId job) {
  if (waiting_.size() >= kWaitingMax) {
    return Error{ErrorCode::kOverloaded, std::to_string(waiting_.size()) + " requests for workers are waiting"};
  }
  waiting_.push_back({request, job});
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::worker_started(LeaseRequestId request, WorkerId worker) {
  const auto found = starting_.find(request);
  if (found == starting_.end()) return {EndIdleWorker{worker}};  // its job has ended meanwhile
  leased_[worker] = found->second;
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

LeaseEffects Leases::returned(WorkerId worker, TimePoint now) {
  const auto found = leased_.find(worker);
  if (found == leased_.end()) return {};
  idle_.push_back({worker, found->second, now});
  leased_.erase(found);
  --in_use_;
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::worker_ended(WorkerId worker) {
  std::erase_if(idle_, [worker](const Idle& idle) { return idle.worker == worker; });
  if (leased_.erase(worker) == 0) return {};
  --in_use_;
  LeaseEffects effects;
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::job_ended(JobId job) {
  LeaseEffects effects;
  std::erase_if(waiting_, [job](const Waiting& waiting) { return waiting.job == job; });
  std::erase_if(idle_, [&](const Idle& idle) {
    if (idle.job == job) effects.push_back(EndIdleWorker{idle.worker});
    return idle.job == job;
  });
  in_use_ -=
      static_cast<std::uint32_t>(std::erase_if(starting_, [job](const auto& entry) { return entry.second == job; }));
  in_use_ -= static_cast<std::uint32_t>(std::erase_if(leased_, [&](const auto& entry) {
    if (entry.second == job) effects.push_back(EndIdleWorker{entry.first});
    return entry.second == job;
  }));
  grant_what_fits(effects);
  return effects;
}

LeaseEffects Leases::tick(TimePoint now) {
  LeaseEffects effects;
  while (!idle_.empty() && now - idle_.front().since >= idle_time_) {
    effects.push_back(EndIdleWorker{idle_.front().worker});
    idle_.pop_front();
  }
  return effects;
}

void Leases::grant_what_fits(LeaseEffects& effects) {
  while (!waiting_.empty() && in_use_ < cpus_) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    ++in_use_;
    // The one that was idle for the shortest time has the warmest caches.
    const auto same_job =
        std::find_if(idle_.rbegin(), idle_.rend(), [&](const Idle& idle) { return idle.job == next.job; });
    if (same_job == idle_.rend()) {
      starting_[next.request] = next.job;
      effects.push_back(StartWorker{next.request, next.job});
      continue;
    }
    leased_[same_job->worker] = next.job;
    effects.push_back(Grant{next.request, same_job->worker});
    idle_.erase(std::next(same_job).base());
  }
}

}  // namespace pharos::scheduler
