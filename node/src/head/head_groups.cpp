// The head's placement groups: which caller has asked for each, and which nodes have set its bundles aside.

#include <utility>

#include "head/head.hpp"
#include "head/head_keys.hpp"
#include "node/demands.hpp"

namespace pharos::node {

bool Head::on_group_message(NodeId from, wire::Message& message) {
  if (auto* const place = std::get_if<wire::PlaceGroup>(&message)) {
    place_group(from, std::move(*place));
  } else if (const auto* const remove = std::get_if<wire::RemoveGroup>(&message)) {
    const auto found = groups_.find(remove->group);
    if (found == groups_.end() && recovering_) {
      put_off_.emplace_back(from, std::move(message));
    } else if (found != groups_.end() && found->second.asker.job == remove->asker.job) {
      remove_group(remove->group);
    }
  } else if (const auto* const held = std::get_if<wire::BundleHeld>(&message)) {
    bundle_held(from, *held);
  } else {
    return false;
  }
  return true;
}

void Head::place_group(NodeId from, wire::PlaceGroup place) {
  note_caller(place.asker, from);
  if (!program_goes_on(from, place.asker) || !has_room(from, place.asker)) return;
  const auto refuse = [&](Error why) { tell(from, wire::Refused{place.asker.number, std::move(why)}); };
  if (auto sane = scheduler::check_name(place.label); !sane) return refuse(std::move(sane).error());
  if (const auto known = groups_.find(place.group); known != groups_.end()) {
    Group& group = known->second;
    if (group.asker.caller != place.asker.caller) {
      return refuse({ErrorCode::kAlreadyExists, "a group with this id exists already"});
    }
    // The answer to the first request was lost with an earlier head.
    group.asker = place.asker;
    group.asked_from = from;
    group.answered = false;
    return answer_if_held(group);
  }
  if (place.bundles.empty() || place.bundles.size() > scheduler::GroupSpec::kBundlesMax) {
    return refuse({ErrorCode::kInvalidArgument,
                   "group \"" + place.label + "\" has " + std::to_string(place.bundles.size()) + " bundles",
                   "Give it between 1 and " + std::to_string(scheduler::GroupSpec::kBundlesMax) + "."});
  }
  scheduler::GroupSpec spec{place.label, {}, place.strategy};
  for (const wire::Demand& bundle : place.bundles) {
    auto demand = checked(bundle);
    if (!demand) return refuse(std::move(demand).error().with("group \"" + place.label + "\""));
    spec.bundles.push_back(*std::move(demand));
  }
  if (recovering_) return put_off_.emplace_back(from, std::move(place)), void();
  if (records_ != nullptr) records_->put(group_key(place.group), place);
  moved_groups_.insert(place.group);
  groups_.emplace(place.group, Group{.asker = place.asker,
                                     .asked_from = from,
                                     .label = place.label,
                                     .strategy = place.strategy,
                                     .bundles = spec.bundles,
                                     .nodes = std::vector<NodeId>(place.bundles.size()),
                                     .unheld = {}});
  apply(placement_.place_group(place.group, std::move(spec)));
}

// Tasks may still use the resources of the bundles. So each node is asked to set its bundles aside, and the group is
// ready when all nodes have done so.
void Head::apply(const scheduler::GroupPlaced& placed) {
  Group& group = groups_.at(placed.group);
  moved_groups_.insert(placed.group);
  for (const scheduler::PlacedBundle& bundle : placed.bundles) {
    group.nodes[bundle.index] = bundle.node;
    group.unheld.insert(bundle.index);
    hold_bundle(placed.group, bundle.index, bundle.node, bundle.allotment);
  }
}

void Head::hold_bundle(GroupId group, std::uint32_t index, NodeId node, const scheduler::Allotment& allotment) {
  tell(node, wire::HoldBundle{group, index, allotment.amounts.amounts(), to_wire(allotment.gpus)});
}

void Head::bundle_held(NodeId from, const wire::BundleHeld& held) {
  const auto found = groups_.find(held.group);
  if (found == groups_.end()) return;
  Group& group = found->second;
  if (held.bundle >= group.nodes.size() || group.nodes[held.bundle] != from) return;
  group.unheld.erase(held.bundle);
  answer_if_held(group);
}

void Head::answer_if_held(Group& group) {
  if (!group.unheld.empty() || std::exchange(group.answered, true)) return;
  tell(group.asked_from, wire::GroupReady{group.asker.number, group.nodes});
}

void Head::remove_group(GroupId id) {
  const auto removed = groups_.extract(id);
  if (removed.empty()) return;
  moved_groups_.insert(id);
  const Group& group = removed.mapped();
  if (!group.answered) {
    tell(group.asked_from, wire::Refused{group.asker.number, Error{ErrorCode::kCancelled, "the group was removed"}});
  }
  apply(placement_.remove_group(id));
}

bool Head::may_use_group(const wire::Demand& demand, JobId job) const {
  if (!demand.group) return true;
  const auto found = groups_.find(demand.group);
  return found != groups_.end() && found->second.asker.job == job;
}

}  // namespace pharos::node
