#include "head/job_table.hpp"

#include <algorithm>

#include "head/head_keys.hpp"

namespace pharos::node::head {
namespace {

constexpr std::size_t kOthersMax = 16;  // nodes that are named as sources of an executable

}  // namespace

void JobTable::add(NodeId from, wire::AddJob job) {
  job.node = from;
  if (!contains(job.job)) events_.put(job_key(job.job), job);
  jobs_.emplace(job.job, Job{from, std::move(job.program), {from}, std::nullopt});
}

void JobTable::restore(const wire::AddJob& job) {
  jobs_.emplace(job.job, Job{job.node, job.program, {job.node}, std::nullopt});
}

const JobTable::Job* JobTable::find(JobId job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second;
}

bool JobTable::admit(NodeId from, const wire::Asker& asker) {
  const Job* const job = find(asker.job);
  if (job != nullptr && !job->stopping) return true;
  events_.tell(from, wire::Refused{asker.number, {ErrorCode::kRuntimeStopped, "the program has ended"}});
  return false;
}

Result<void> JobTable::check_build(JobId caller, JobId its, const std::string& actor) const {
  const Job* const calling = find(caller);
  const Job* const there = find(its);
  if (calling == nullptr || there == nullptr || calling->program.build_id == there->program.build_id) return {};
  return Error{
      ErrorCode::kFailedPrecondition,
      "actor \"" + actor + "\" belongs to another build of the program, which runs from " + there->program.executable,
      "Stop the actor and start it from this build, or find it with Runtime::foreign_actor()."};
}

void JobTable::show(NodeId node, JobId job) {
  Job& shown = jobs_.at(job);
  if (shown.known_at.contains(node)) return;
  wire::AddJob add{job, shown.program, shown.node, {}};
  for (const NodeId other : shown.known_at) {
    if (other != shown.node && add.others.size() < kOthersMax) add.others.push_back(other);
  }
  shown.known_at.insert(node);
  events_.tell(node, std::move(add));
}

void JobTable::pass_on(const wire::Output& output) {
  if (const Job* const job = find(output.job)) events_.tell_at_once(job->node, output);
}

void JobTable::stop(JobId job, bool has_detached) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || found->second.stopping) return;
  Job& stopped = found->second;
  if (has_detached) return events_.tell(stopped.node, wire::JobStopped{job});
  stopped.stopping.emplace(stopped.known_at);
  for (const NodeId node : stopped.known_at) events_.tell(node, wire::StopJob{job});
}

void JobTable::note_stopped(JobId job, NodeId node) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || !found->second.stopping || found->second.stopping->erase(node) == 0) return;
  if (found->second.stopping->empty()) events_.tell(found->second.node, wire::JobStopped{job});
}

void JobTable::leave_driver(JobId id) {
  Job& job = jobs_.at(id);
  job.node = {};
  job.stopping.reset();
  events_.put(job_key(id), wire::AddJob{id, job.program, {}});
}

bool JobTable::end(JobId job) {
  const auto ended = jobs_.extract(job);
  if (ended.empty()) return false;
  events_.erase(job_key(job));
  for (const NodeId node : ended.mapped().known_at) events_.tell(node, wire::EndJob{job});
  return true;
}

std::vector<JobId> JobTable::lose_node(NodeId node) {
  std::vector<JobId> driven;
  for (auto& [id, job] : jobs_) {
    job.known_at.erase(node);
    if (job.node == node) driven.push_back(id);
  }
  return driven;
}

void JobTable::note_stopped_all(NodeId node) {
  for (const auto& [id, job] : jobs_) note_stopped(id, node);
}

std::vector<JobId> JobTable::missing(NodeId node, const std::vector<JobId>& reported) const {
  std::vector<JobId> missing;
  for (const auto& [id, job] : jobs_) {
    if (job.node == node && std::find(reported.begin(), reported.end(), id) == reported.end()) missing.push_back(id);
  }
  return missing;
}

void JobTable::take_reported(NodeId node, const std::vector<JobId>& reported) {
  for (const JobId id : reported) {
    const auto job = jobs_.find(id);
    if (job == jobs_.end()) {
      events_.tell(node, wire::EndJob{id});
      continue;
    }
    job->second.known_at.insert(node);
    if (!job->second.stopping) continue;
    job->second.stopping->insert(node);
    events_.tell(node, wire::StopJob{id});
  }
}

void JobTable::note_actor_over(JobId job) {
  if (const Job* const found = find(job); found != nullptr && !found->node) maybe_over_.insert(job);
}

void JobTable::review_all() {
  for (const auto& [id, job] : jobs_) {
    if (!job.node) maybe_over_.insert(id);
  }
}

}  // namespace pharos::node::head
