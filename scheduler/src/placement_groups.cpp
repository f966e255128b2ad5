#include <algorithm>
#include <utility>

#include <pharos/scheduler/placement.hpp>

namespace pharos::scheduler {
namespace {

constexpr std::uint32_t kTriesOffMax = 64;

Error has_no_such_bundle(const std::string& who, const std::string& group, std::uint32_t bundle, std::size_t bundles) {
  return {ErrorCode::kInvalidArgument,
          who + " asks for bundle " + std::to_string(bundle) + " of group \"" + group + "\", which has " +
              std::to_string(bundles),
          "Bundles are counted from 0."};
}

}  // namespace

PlacementEffects Placement::place_group(GroupId id, GroupSpec spec, bool patient) {
  PlacementEffects effects;
  Group& placed = groups_.insert_or_assign(id, Group{id, std::move(spec), ++last_number_}).first->second;
  if (place_now(placed, Fleet::kAllClaims, effects)) return effects;
  placed.waits = true;
  ++waiting_;
  turns_.add({placed.number, 0, nullptr, &placed});
  if (!make_plan(placed) && !patient) return refuse_hopeless(id);
  settle(effects);
  return effects;
}

PlacementEffects Placement::refuse_hopeless(GroupId id) {
  PlacementEffects effects;
  const auto found = groups_.find(id);
  if (found == groups_.end()) return effects;
  Group& group = found->second;
  if (!group.waits || !group.plan.empty() || group.missing().size() != group.bundles.size()) return effects;
  end_waiting(group);
  const Error why = group.too_much(fleet_);
  for (const Group::Waiting& each : group.line) {
    places_.erase(each.actor);
    --waiting_;
    effects.emplace_back(Unplaceable{each.actor, why});
  }
  effects.emplace_back(GroupUnplaceable{id, why});
  groups_.erase(found);
  return effects;
}

PlacementEffects Placement::remove_group(GroupId id) {
  PlacementEffects effects;
  const auto found = groups_.find(id);
  if (found == groups_.end() || found->second.removed) return effects;
  Group& group = found->second;
  end_waiting(group);
  group.removed = true;
  for (const Group::Waiting& each : std::exchange(group.line, {})) {
    places_.erase(each.actor);
    --waiting_;
    effects.emplace_back(Unplaceable{
        each.actor, Error{ErrorCode::kActorDied, "actor \"" + each.label + "\" ended: its group was removed"}});
  }
  const auto bundles = static_cast<std::uint32_t>(group.bundles.size());
  for (std::uint32_t bundle = 0; bundle < bundles && groups_.contains(id); ++bundle)
    free_if_unused(group, bundle, effects);
  settle(effects);
  return effects;
}

PlacementEffects Placement::place_in_group(ActorId actor, const std::string& label, const Resources& amounts,
                                           GroupId id, std::optional<std::uint32_t> bundle) {
  PlacementEffects effects;
  const std::string who = "actor \"" + label + "\"";
  const auto refuse = [&](Error why) {
    effects.emplace_back(Unplaceable{actor, std::move(why)});
    return effects;
  };
  const auto found = groups_.find(id);
  if (found == groups_.end() || found->second.removed) {
    return refuse({ErrorCode::kNotFound, who + " asks for a group that does not exist"});
  }
  Group& group = found->second;
  const std::vector<Group::Bundle>& bundles = group.bundles;
  if (bundle && *bundle >= bundles.size()) {
    return refuse(has_no_such_bundle(who, group.label, *bundle, bundles.size()));
  }
  const auto could_fit = [&](const Group::Bundle& each) { return amounts.fits_in(each.demand.amounts); };
  if (bundle ? !could_fit(bundles[*bundle]) : std::none_of(bundles.begin(), bundles.end(), could_fit)) {
    const std::string whose = bundle ? "bundle " + std::to_string(*bundle) + " of group \"" + group.label + "\""
                                     : "no bundle of group \"" + group.label + "\" has more; the first";
    return refuse({ErrorCode::kInvalidArgument,
                   who + " asks for " + amounts.shortage(bundles[bundle.value_or(0)].demand.amounts, whose),
                   "Ask for less, or give the group larger bundles."});
  }
  group.line.push_back({actor, label, amounts, bundle});
  places_.insert_or_assign(actor, Place{.group = id});
  ++waiting_;
  serve_group(group, effects);
  return effects;
}

// ---- Places for bundles

bool Placement::place_now(Group& group, std::uint64_t number, PlacementEffects& effects) {
  const Bundles missing = group.missing();
  Resources all;
  for (const std::uint32_t index : missing) all += group.bundles[index].demand.amounts;
  if (!all.fits_in(fleet_.left())) return false;
  const auto nodes = group.find_places(fleet_, missing, number);
  if (nodes.size() != missing.size()) return false;
  put(group, nodes, missing, effects);
  return true;
}

bool Placement::make_plan(Group& group) {
  const Bundles missing = group.missing();
  const auto nodes = group.find_places(fleet_, missing, std::nullopt);
  if (nodes.size() != missing.size()) return false;
  for (std::size_t i = 0; i < missing.size(); ++i) group.plan[nodes[i]->id].push_back(missing[i]);
  for (const auto& [id, bundles] : group.plan) {
    Resources amounts;
    for (const std::uint32_t index : bundles) amounts += group.bundles[index].demand.amounts;
    fleet_.claim(*fleet_.find(id), group.number, amounts);
    unsettled_.insert(id);
  }
  group.lacking = {};
  return true;
}

void Placement::drop_plan(Group& group) {
  for (const auto& [id, bundles] : std::exchange(group.plan, {})) {
    fleet_.unclaim(*fleet_.find(id), group.number);
    unsettled_.insert(id);
  }
}

/// Returns whether the group was placed, because of what has become free on this node.
bool Placement::settle_group_at(Group& group, Node& node, const Resources& room, PlacementEffects& effects) {
  if (group.plan.contains(node.id)) {
    if ((group.lacking && group.lacking != node.id) || !group.plan_holds(fleet_)) return false;
    std::vector<Node*> nodes;
    Bundles missing;
    for (const auto& [id, bundles] : group.plan) {
      for (const std::uint32_t index : bundles) {
        nodes.push_back(fleet_.find(id));
        missing.push_back(index);
      }
    }
    put(group, nodes, missing, effects);
    return true;
  }
  const bool one_fits = std::any_of(group.bundles.begin(), group.bundles.end(), [&](const Group::Bundle& bundle) {
    return !bundle.node && bundle.demand.amounts.fits_in(room) && Fleet::could_fit(node, bundle.demand);
  });
  if (!one_fits || group.tries_next++ < group.tries_off) return false;
  group.tries_next = 0;
  if (place_now(group, group.number, effects)) return true;
  group.tries_off = std::min(2 * group.tries_off + 1, kTriesOffMax);
  return false;
}

void Placement::put(Group& group, const std::vector<Node*>& nodes, const Bundles& missing, PlacementEffects& effects) {
  end_waiting(group);
  std::map<NodeId, Bundles> bundles_at;
  for (std::size_t i = 0; i < missing.size(); ++i) bundles_at[nodes[i]->id].push_back(missing[i]);
  for (const auto& [id, bundles] : bundles_at) {
    Node& node = *fleet_.find(id);
    auto allotments = node.ledger.find_allotments(group.amounts_of(bundles));
    PHAROS_CHECK(allotments.size() == bundles.size(), group.label, id, node.ledger.left().to_string());
    for (std::size_t i = 0; i < bundles.size(); ++i) {
      Group::Bundle& bundle = group.bundles[bundles[i]];
      bundle.node = id;
      bundle.allotment = std::move(allotments[i]);
      fleet_.take(node, bundle.allotment);
      bundle.ledger.emplace(bundle.allotment);
    }
  }
  GroupPlaced placed{group.id, {}};
  for (const std::uint32_t index : missing) {
    const Group::Bundle& bundle = group.bundles[index];
    placed.bundles.push_back({index, bundle.node, bundle.allotment});
  }
  effects.emplace_back(std::move(placed));
  serve_group(group, effects);
}

void Placement::end_waiting(Group& group) {
  if (!std::exchange(group.waits, false)) return;
  drop_plan(group);
  turns_.erase(group.number);
  --waiting_;
}

void Placement::serve_group(Group& group, PlacementEffects& effects) {
  for (Group::Served& served : group.serve(fleet_)) {
    --waiting_;
    const NodeId node = group.bundles[served.bundle].node;
    seat(served.actor, Place{.node = node, .allotment = served.allotment, .group = group.id, .bundle = served.bundle});
    effects.emplace_back(Placed{served.actor, node, std::move(served.allotment), served.bundle});
  }
}

/// Frees a bundle of a removed group, and removes the group with its last bundle.
void Placement::free_if_unused(Group& group, std::uint32_t index, PlacementEffects& effects) {
  Group::Bundle& bundle = group.bundles[index];
  if (!group.removed || bundle.users != 0) return;
  if (bundle.node) {
    fleet_.give_back(*fleet_.find(bundle.node), bundle.allotment);
    unsettled_.insert(bundle.node);
    effects.emplace_back(BundleFreed{group.id, index, std::exchange(bundle.node, NodeId{})});
  }
  const bool is_last = std::none_of(group.bundles.begin(), group.bundles.end(),
                                    [](const Group::Bundle& each) { return bool{each.node}; });
  if (is_last) groups_.erase(group.id);
}

PlacementEffects Placement::vacate(NodeId id) {
  PlacementEffects effects;
  std::vector<Group*> leaving;
  for (auto& [group_id, group] : groups_) {
    const auto is_here = [id](const Group::Bundle& bundle) { return bundle.node == id; };
    const auto is_used = [&](const Group::Bundle& bundle) { return is_here(bundle) && bundle.users != 0; };
    const bool leaves = std::any_of(group.bundles.begin(), group.bundles.end(), is_here) &&
                        std::none_of(group.bundles.begin(), group.bundles.end(), is_used);
    if (leaves && !group.removed) leaving.push_back(&group);
  }
  for (Group* const group : leaving) {
    for (std::uint32_t i = 0; i < group->bundles.size(); ++i) {
      if (group->bundles[i].node != id) continue;
      fleet_.give_back(*fleet_.find(id), group->bundles[i].allotment);
      effects.emplace_back(BundleFreed{group->id, i, id});
    }
    group->lose_node(id);
    wait_for_places(*group, effects);
  }
  if (!leaving.empty()) unsettled_.insert(id);
  settle(effects);
  return effects;
}

void Placement::wait_for_places(Group& group, PlacementEffects& effects) {
  if (!std::exchange(group.waits, true)) {
    ++waiting_;
    turns_.add({group.number, 0, nullptr, &group});
  } else {
    drop_plan(group);
  }
  if (!place_now(group, group.number, effects)) make_plan(group);
}

bool Placement::restore_group(GroupId id, GroupSpec spec, const std::vector<BundlePlace>& places) {
  if (groups_.contains(id) || places.size() != spec.bundles.size()) return false;
  Group group{id, std::move(spec), ++last_number_};
  for (std::size_t i = 0; i < places.size(); ++i) {
    Group::Bundle& bundle = group.bundles[i];
    Node* const node = fleet_.find(places[i].node);
    if (node == nullptr || !node->ledger.fits(places[i].allotment)) continue;  // the bundle has lost its place
    fleet_.take(*node, places[i].allotment);
    bundle.node = node->id;
    bundle.allotment = places[i].allotment;
    bundle.ledger.emplace(bundle.allotment);
  }
  groups_.emplace(id, std::move(group));
  return true;
}

PlacementEffects Placement::replace_group(GroupId id) {
  PlacementEffects effects;
  const auto found = groups_.find(id);
  if (found == groups_.end() || found->second.missing().empty()) return effects;
  wait_for_places(found->second, effects);
  settle(effects);
  return effects;
}

}  // namespace pharos::scheduler
