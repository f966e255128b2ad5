// The head's jobs. A job is a running program. It lasts until the driver and the last of its detached actors have
// ended.

#include <utility>
#include <vector>

#include "head/head.hpp"
#include "head/head_keys.hpp"

namespace pharos::node {

// From here on nothing of the job is started.
void Head::stop_job(JobId job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || found->second.stopping) return;
  Job& stopped = found->second;
  // Detached actors go on, so the nodes do not stop the job. What the driver holds ends, after its destructors, once
  // the driver is gone.
  if (actors_.has_detached(job)) return tell(stopped.node, wire::JobStopped{job});
  stopped.stopping.emplace(stopped.known_at);
  for (const NodeId node : stopped.known_at) tell(node, wire::StopJob{job});
}

void Head::job_stopped(JobId job, NodeId node) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || !found->second.stopping || found->second.stopping->erase(node) == 0) return;
  if (found->second.stopping->empty()) tell(found->second.node, wire::JobStopped{job});
}

/// The driver has ended. Its detached actors go on, and so does whatever they hold.
void Head::leave_driver(JobId id) {
  Job& job = jobs_.at(id);
  job.node = {};
  job.stopping.reset();
  if (records_ != nullptr) records_->put(job_key(id), wire::AddJob{id, job.program, {}});
}

void Head::end_jobs_without_driver() {
  for (const JobId id : std::exchange(maybe_over_, {})) {
    const auto job = jobs_.find(id);
    if (job != jobs_.end() && !job->second.node && !recovering_ && !actors_.has_detached(id)) end_job(id);
  }
}

/// The driver has ended, or the last of the actors that outlived the driver.
void Head::end_job(JobId job) {
  if (jobs_.contains(job) && actors_.has_detached(job)) return leave_driver(job);
  const auto ended = jobs_.extract(job);
  if (ended.empty()) return;
  if (records_ != nullptr) records_->erase(job_key(job));
  for (const NodeId node : ended.mapped().known_at) tell(node, wire::EndJob{job});
  const auto of_job = [job](const auto& entry) { return entry.second.asker.job == job; };
  for (const auto& [number, lease] : lease_requests_) {
    if (lease.asker.job == job) placement_.count_leases(lease.at, -1);
  }
  for (const auto& [worker, lease] : leases_) {
    if (lease.asker.job == job) placement_.count_leases(lease.at, -1);
  }
  std::erase_if(callers_, [job](const auto& entry) { return entry.second.job == job; });
  std::vector<GroupId> groups;
  for (const auto& [id, group] : groups_) {
    if (group.asker.job == job) groups.push_back(id);
  }
  for (const GroupId group : groups) remove_group(group);
  std::erase_if(lease_requests_, of_job);
  std::erase_if(leases_, of_job);
  std::erase_if(requests_, [&](const auto& entry) { return entry.second.asker.job == job; });
  apply(actors_.job_ended(job));
  std::erase_if(makings_, [&](const auto& entry) {
    if (entry.second.asker.job != job) return false;
    last_ends_.erase(entry.first);
    return true;
  });
}

}  // namespace pharos::node
