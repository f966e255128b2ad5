#include "head/drains.hpp"

#include <chrono>

#include <pharos/base/log.hpp>

#include "head/head_keys.hpp"

namespace pharos::node::head {
namespace {

constexpr Duration kLookTime = std::chrono::milliseconds{200};  // between looks whether a draining node is empty

}  // namespace

void Drains::begin_for(NodeId from, const wire::DrainNode& drain) {
  const auto begun = begin(drain);
  if (!begun) return events_.tell(from, wire::Refused{drain.number, begun.error()});
  events_.tell(from, wire::Rows{{"node"}, {{to_string(drain.node)}}, 1, drain.number});
}

Result<void> Drains::begin(const wire::DrainNode& drain) {
  const NodeTable::Node* const node = nodes_.find(drain.node);
  if (node == nullptr || placement_.fleet().find(drain.node) == nullptr) {
    return Error{ErrorCode::kNotFound, "there is no node " + to_string(drain.node),
                 "\"pharos list nodes\" shows them."};
  }
  if (node->address.empty()) {
    return Error{ErrorCode::kFailedPrecondition, "the head is on node " + to_string(drain.node),
                 "The cluster ends with it: \"pharos stop\"."};
  }
  events_.put(drain_key(drain.node), drain);
  add(drain);
  log(LogLevel::kInfo, "a node drains", {kv("node", drain.node)});
  effects_.apply(placement_.close_node(drain.node));
  return {};
}

bool Drains::restore(const wire::DrainNode& drain) {
  if (!recovery_.expects(drain.node)) return false;
  add(drain);
  return true;
}

void Drains::add(const wire::DrainNode& drain) {
  const TimePoint limit =
      drain.limit_ms == 0 ? TimePoint::max() : events_.now() + std::chrono::milliseconds{drain.limit_ms};
  if (limits_.empty()) look_later();
  limits_.insert_or_assign(drain.node, limit);
}

bool Drains::end(NodeId node) {
  if (limits_.erase(node) == 0) return false;
  events_.erase(drain_key(node));
  return true;
}

void Drains::look_later() {
  events_.run_later(kLookTime, [this] {
    for (const auto& [node, limit] : limits_) {
      if (nodes_.contains(node) && recovery_.is_settled(node)) go_on(node, limit);
    }
    if (!limits_.empty()) look_later();
  });
}

void Drains::go_on(NodeId node, TimePoint limit) {
  const bool over = events_.now() >= limit;
  const bool has_actors = places_.leave(node, over);
  effects_.apply(placement_.vacate(node));
  if (!over) return events_.tell(node, wire::DrainNode{node});
  if (!has_actors) events_.tell(node, wire::EndNode{});
}

// What made the head think that the node is busy may have ended just now: the node has said that first.
void Drains::note_empty(NodeId node) {
  if (contains(node) && !is_busy(node)) events_.tell(node, wire::EndNode{});
}

bool Drains::is_busy(NodeId node) const {
  const auto* const known = placement_.fleet().find(node);
  return !places_.running().at(node).empty() || (known != nullptr && !known->tasks.empty()) ||
         places_.may_need_program_of(node);
}

}  // namespace pharos::node::head
