// How a head that starts again continues from the records.
//
// It has nodes, jobs, actors and groups from its records, each where it was. Its nodes are closed: nothing new is
// placed there. A node that comes back sends, in this order,
//   1. the messages that the earlier head has not confirmed (said_again.hpp),
//   2. Reports of what is on the node. What the records have at this node and the node does not have was never told to
//      it, and is told now. What the node has and the records do not have is over, and ends,
//   3. its questions that have no answer.
// With the last Report the node is opened. The recovery is over when all nodes are back or lost. Only then does the
// head end anything because nobody holds it or asks for it: before, a caller may just not have been reported yet.

#include <set>
#include <unordered_set>
#include <utility>

#include "head/found_records.hpp"
#include "head/head.hpp"
#include "head/head_keys.hpp"

namespace pharos::node {

void Head::restore(Records::Found found) {
  recovery_.begin();
  head::FoundRecords sorted{found.records};
  for (const auto& [join, record] : sorted.nodes) {
    if (!restore_node(*join)) sorted.give_up({record});
  }
  for (const auto& [rotated, record] : sorted.rotations) {
    if (!nodes_.rotations().restore(*rotated)) sorted.give_up({record});
  }
  for (const wire::AddJob* const job : sorted.jobs) jobs_.restore(*job);
  for (const auto& [drain, record] : sorted.drains) {
    if (!drains_.restore(*drain)) sorted.give_up({record});
  }
  for (const auto& [id, group] : sorted.groups) {
    const bool job_lasts = group.place != nullptr && jobs_.contains(group.place->asker.job);
    if (!groups_.restore(group.place, group.places, job_lasts)) sorted.give_up(group.records);
  }
  for (const auto& [id, actor] : sorted.actors) {
    if (!actor_records_.restore(actor.life, actor.making, actor.promise)) sorted.give_up(actor.records);
  }
  for (const auto& [value, record] : sorted.values) {
    if (!values_.restore(*value)) sorted.give_up({record});
  }
  for (const wire::WriteOutcome* const outcome : sorted.outcomes) values_.restore(*outcome);
  for (const Records::Record* const record : sorted.misfits) events_.set_aside(*record);
  listing_.note_set_aside(found.set_aside + sorted.misfits.size());
  for (const auto& [id, group] : sorted.groups) {
    if (group.places != nullptr && group.places->removed) groups_.remove_again(id);
  }
  begin_again();
  events_.end();
}

bool Head::restore_node(const wire::JoinCluster& join) {
  const auto total = scheduler::Resources::checked(join.amounts);
  if (!total || !scheduler::check_labels(join.labels)) return false;
  if (join.address.empty() && join.node != nodes_.own()) {  // this node was in the process of an earlier head
    events_.erase(node_key(join.node));
    return true;
  }
  recovery_.expect(join.node, join.address, events_.now() + kReturnTime);
  if (total->empty()) return true;
  apply(placement_.add_node(join.node, *total, join.labels));
  apply(placement_.close_node(join.node));
  return true;
}

/// Resumes what the earlier head had begun: losses of nodes, placements and restarts.
void Head::begin_again() {
  std::set<NodeId> lost;
  for (const auto& [actor, running] : places_.running().all()) lost.insert(running.node);
  for (const auto& [id, job] : jobs_.all()) {
    if (job.node) lost.insert(job.node);
  }
  for (const NodeId node : recovery_.expected()) lost.erase(node);
  for (const NodeId node : lost) lose_node(node, "its node was lost with the head");
  groups_.replace_all();
  places_.place_missing();
  places_.wait_for_restarts();
  events_.run_later(kReturnTime, [this] { give_up_the_overdue(); });
  end_recovery_if_over();
}

void Head::give_up_the_overdue() {
  for (const NodeId node : recovery_.overdue(events_.now())) remove_node(node);
}

void Head::return_node(NodeId node, const NodeDescription& description, Tell tell) {
  recovery_.await_report(node);
  nodes_.add(node, description.address, std::move(tell));
  events_.tell(node, welcome());
  events_.end();
}

void Head::take_report(NodeId from, wire::Report part) {
  const auto report = recovery_.add_report(from, std::move(part));
  if (!report) return;
  for (const JobId job : jobs_.missing(from, report->jobs)) end_job(job);
  jobs_.take_reported(from, report->jobs);
  std::unordered_set<CallerId> there;
  for (const auto& [caller, job] : report->callers) {
    callers_.note({job, caller, 0}, from);
    there.insert(caller);
  }
  // Some callers are known only from messages that their node has sent again for them, and have ended since.
  for (const CallerId caller : callers_.at(from)) {
    if (!there.contains(caller)) end_caller(caller);
  }
  // The message that makes an actor may have reached no head yet. Then the node of its maker sends it again, after that
  // node's report.
  for (const auto& hold : report->holds) {
    early_.ask(hold.actor, [this, hold] { handles_.restore_hold(hold); });
  }
  groups_.take_report(from, *report);
  places_.take_report(from, *report);
  leases_.take_report(from, *report);
  if (!drains_.contains(from)) {
    apply(placement_.open_node(from));
    try_again_with_new_node();
  }
  end_recovery_if_over();
}

void Head::end_recovery_if_over() {
  if (nodes_.own() && !knows(nodes_.own())) return;  // what ran there may have room nowhere else
  if (!recovery_.end_if_all_settled()) return;
  const auto is_there = [this](CallerId caller) { return callers_.contains(caller); };
  leases_.settle(is_there);
  apply(actors_.restored(is_there));
  jobs_.review_all();
  places_.place_unplaceable();
  for (auto& [from, message] : recovery_.take_put_off()) handle(from, std::move(message));
}

}  // namespace pharos::node
