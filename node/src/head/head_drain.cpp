// Draining nodes. Nothing new is placed on such a node. Actors that may be restarted move to another node after the
// calls that they run. Actors whose place others may take (StartActor::leaves) are stopped, with notice. The remaining
// actors and the tasks end by themselves or when the time limit is over. Then the node ends.

#include <algorithm>
#include <chrono>

#include <pharos/base/log.hpp>

#include "head/head.hpp"
#include "head/head_keys.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookTime = 200ms;    // between looks whether a draining node is empty
constexpr Duration kMoveTime = 30s;  // for the call that an actor runs

}  // namespace

Result<void> Head::drain(const wire::DrainNode& drain) {
  const auto node = nodes_.find(drain.node);
  if (node == nodes_.end() || placement_.fleet().find(drain.node) == nullptr) {
    return Error{ErrorCode::kNotFound, "there is no node " + to_string(drain.node),
                 "\"pharos list nodes\" shows them."};
  }
  if (node->second.address.empty()) {
    return Error{ErrorCode::kFailedPrecondition, "the head is on node " + to_string(drain.node),
                 "The cluster ends with it: \"pharos stop\"."};
  }
  if (records_ != nullptr) records_->put(drain_key(drain.node), drain);
  begin_drain(drain);
  log(LogLevel::kInfo, "a node drains", {kv("node", drain.node)});
  apply(placement_.close_node(drain.node));
  return {};
}

/// A head that has started again gives the node the whole time limit once more.
void Head::begin_drain(const wire::DrainNode& drain) {
  const TimePoint limit =
      drain.limit_ms == 0 ? TimePoint::max() : executor_.now() + std::chrono::milliseconds{drain.limit_ms};
  if (draining_.empty()) drain_later();
  draining_.insert_or_assign(drain.node, limit);
}

void Head::drain_later() {
  run_later(kLookTime, [this] {
    for (const auto& [node, limit] : draining_) {
      if (knows(node) && !reporting_.contains(node)) drain_more(node, limit);  // else the node is not back yet
    }
    if (!draining_.empty()) drain_later();
  });
}

void Head::drain_more(NodeId node, TimePoint limit) {
  const bool over = executor_.now() >= limit;
  const auto there = running_at(node);
  for (const auto& [actor, incarnation] : there) {
    const auto making = makings_.find(actor);
    if (making != makings_.end() && making->second.leaves) {
      apply(actors_.stop(actor, "its node drains", kMoveTime));
    } else {
      apply(actors_.move(actor, kMoveTime));
    }
    const auto* const spec = actors_.find_spec(actor);
    if (!over || spec == nullptr) continue;
    if (spec->max_restarts == 0) {
      apply(actors_.kill(actor, "its node was drained, and the time limit of the drain is over"));
    } else {
      tell(node, wire::EndIncarnation{actor, incarnation, true});
    }
  }
  const auto* const known = placement_.fleet().find(node);
  const bool busy = !there.empty() || (known != nullptr && !known->tasks.empty()) || may_be_asked_for_program(node);
  if (busy && !over) return tell(node, wire::DrainNode{node});
  if (there.empty()) tell(node, wire::EndNode{});
}

/// Returns whether another node may still fetch an executable from this one: the driver of the job has ended, and an
/// actor of the job is still to start.
bool Head::may_be_asked_for_program(NodeId node) const {
  return std::any_of(makings_.begin(), makings_.end(), [&](const auto& entry) {
    const Job& job = jobs_.at(entry.second.asker.job);
    return !job.node && job.known_at.contains(node) && actors_.is_to_start(entry.first);
  });
}

}  // namespace pharos::node
