// Nodes that are to go: nothing new is placed there; actors that may be restarted move, after the calls that they run;
// the others and tasks end by themselves, or when their time is over; then the node ends.

#include <chrono>

#include <pharos/base/log.hpp>

#include "head.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookTime = 200ms;    // between looks whether one is empty
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
  const TimePoint limit =
      drain.limit_ms == 0 ? TimePoint::max() : executor_.now() + std::chrono::milliseconds{drain.limit_ms};
  if (draining_.empty()) drain_later();
  draining_.insert_or_assign(drain.node, limit);
  log(LogLevel::kInfo, "a node drains", {kv("node", drain.node)});
  apply(placement_.close_node(drain.node));
  return {};
}

void Head::drain_later() {
  run_later(kLookTime, [this] {
    std::erase_if(draining_, [this](const auto& entry) {
      return !nodes_.contains(entry.first) || drained(entry.first, entry.second);
    });
    if (!draining_.empty()) drain_later();
  });
}

/// Nothing is there any more, and the node has been told so.
bool Head::drained(NodeId node, TimePoint limit) {
  const bool over = executor_.now() >= limit;
  const auto there = running_at(node);
  for (const auto& [actor, incarnation] : there) {
    apply(actors_.move(actor, kMoveTime));
    const auto* const spec = actors_.find_spec(actor);
    if (!over || spec == nullptr) continue;
    if (spec->max_restarts == 0) {
      apply(actors_.kill(actor, "its node was drained, and its time was over"));
    } else {
      tell(node, wire::EndIncarnation{actor, incarnation, true});
    }
  }
  const auto* const known = placement_.fleet().find(node);
  const bool busy = !there.empty() || (known != nullptr && !known->tasks.empty());
  if (busy && !over) {
    tell(node, wire::DrainNode{node});
    return false;
  }
  if (!there.empty()) return false;
  tell(node, wire::EndNode{});
  return true;
}

}  // namespace pharos::node
