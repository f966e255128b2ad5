#include <algorithm>
#include <utility>

#include <pharos/scheduler/placement.hpp>

#include "packing.hpp"

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

PlacementEffects Placement::place_group(GroupId id, GroupSpec spec) {
  PlacementEffects effects;
  Group group{
      .id = id, .label = std::move(spec.label), .strategy = spec.strategy, .bundles = {}, .number = ++last_number_};
  for (Demand& demand : spec.bundles) group.bundles.push_back({.demand = std::move(demand)});
  Group& placed = groups_.insert_or_assign(id, std::move(group)).first->second;
  if (place_now(placed, Fleet::kAllClaims, effects)) return effects;
  placed.waits = true;
  ++waiting_;
  if (make_plan(placed)) {
    turns_.add({placed.number, 0, nullptr, &placed});
    settle(effects);
    return effects;
  }
  --waiting_;
  effects.emplace_back(GroupUnplaceable{id, too_much(placed)});
  groups_.erase(id);
  return effects;
}

PlacementEffects Placement::remove_group(GroupId id) {
  PlacementEffects effects;
  const auto found = groups_.find(id);
  if (found == groups_.end() || found->second.removed) return effects;
  Group& group = found->second;
  end_waiting(group);
  group.removed = true;
  for (const InGroup& each : std::exchange(group.line, {})) {
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
  const std::vector<Bundle>& bundles = group.bundles;
  if (bundle && *bundle >= bundles.size()) {
    return refuse(has_no_such_bundle(who, group.label, *bundle, bundles.size()));
  }
  const auto could_fit = [&](const Bundle& each) { return amounts.fits_in(each.demand.amounts); };
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

Placement::Bundles Placement::missing_of(const Group& group) {
  Bundles missing;
  for (std::uint32_t i = 0; i < group.bundles.size(); ++i) {
    if (!group.bundles[i].node) missing.push_back(i);
  }
  return missing;
}

/// With `number`, finds places in what is left after the claims with smaller numbers; without it, as if nothing were
/// taken.
std::vector<Fleet::Node*> Placement::find_places(const Group& group, const Bundles& missing,
                                                 std::optional<std::uint64_t> number) const {
  std::vector<const Demand*> demands;
  for (const std::uint32_t index : missing) demands.push_back(&group.bundles[index].demand);
  Packing packing{.nodes = fleet_.by_use(), .may_fit = {}, .room = {}, .taken = {}};
  for (const Bundle& bundle : group.bundles) {
    if (bundle.node) packing.taken.insert(bundle.node);
  }
  if (number) {
    packing.may_fit = [](const Node& node, const Demand& demand) {
      return demand.amounts.fits_in(node.ledger.left()) && Fleet::could_fit(node, demand);
    };
    packing.room = [number](const Node& node) {
      ResourceLedger room = node.ledger;
      for (auto claim = node.claims.begin(); claim != node.claims.end() && claim->first < *number; ++claim) {
        room.take(Allotment{claim->second, {}});
      }
      return room;
    };
  } else {
    packing.may_fit = [](const Node& node, const Demand& demand) { return Fleet::could_fit(node, demand); };
    packing.room = [](const Node& node) { return ResourceLedger{node.ledger.total()}; };
  }
  return pack(demands, group.strategy, packing);
}

bool Placement::place_now(Group& group, std::uint64_t number, PlacementEffects& effects) {
  const Bundles missing = missing_of(group);
  Resources all;
  for (const std::uint32_t index : missing) all += group.bundles[index].demand.amounts;
  if (!all.fits_in(fleet_.left())) return false;
  const auto nodes = find_places(group, missing, number);
  if (nodes.size() != missing.size()) return false;
  put(group, nodes, missing, effects);
  return true;
}

bool Placement::make_plan(Group& group) {
  const Bundles missing = missing_of(group);
  const auto nodes = find_places(group, missing, std::nullopt);
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

bool Placement::plan_holds(Group& group) {
  for (const auto& [id, bundles] : group.plan) {
    const Node& node = *fleet_.find(id);
    ResourceLedger room = node.ledger;
    for (auto claim = node.claims.begin(); claim->first < group.number; ++claim) {
      room.take(Allotment{claim->second, {}});
    }
    for (const std::uint32_t index : bundles) {
      const Resources& amounts = group.bundles[index].demand.amounts;
      if (!room.fits(amounts)) {
        group.lacking = id;
        return false;
      }
      room.take(amounts);
    }
  }
  return true;
}

/// Returns whether the group was placed, because of what has become free on this node.
bool Placement::settle_group_at(Group& group, Node& node, const Resources& room, PlacementEffects& effects) {
  if (group.plan.contains(node.id)) {
    if ((group.lacking && group.lacking != node.id) || !plan_holds(group)) return false;
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
  const bool one_fits = std::any_of(group.bundles.begin(), group.bundles.end(), [&](const Bundle& bundle) {
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
  GroupPlaced placed{group.id, {}};
  for (std::size_t i = 0; i < missing.size(); ++i) {
    Bundle& bundle = group.bundles[missing[i]];
    bundle.node = nodes[i]->id;
    bundle.allotment = fleet_.take(*nodes[i], bundle.demand.amounts);
    bundle.ledger.emplace(bundle.allotment);
    placed.bundles.push_back({missing[i], bundle.node, bundle.allotment});
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

// Serves the actors in their order. For an actor that does not fit, its amounts are set aside in the bundle.
void Placement::serve_group(Group& group, PlacementEffects& effects) {
  if (group.line.empty()) return;
  std::unordered_map<std::uint32_t, Resources> rooms;  // of bundles that an actor got or waits for in this loop
  const auto room_of = [&](std::uint32_t i) {
    const Bundle& bundle = group.bundles[i];
    return bundle.node ? bundle.ledger->left() : Resources{};
  };
  const auto fits_in_room = [&](const Resources& amounts, std::uint32_t i) {
    const auto taken = rooms.find(i);
    return amounts.fits_in(taken != rooms.end() ? taken->second : group.bundles[i].ledger->left());
  };
  for (auto each = group.line.begin(); each != group.line.end();) {
    std::optional<std::uint32_t> wanted = each->bundle;
    bool fits = false;
    const std::uint32_t first = each->bundle.value_or(0);
    const std::uint32_t end = each->bundle ? first + 1 : static_cast<std::uint32_t>(group.bundles.size());
    for (std::uint32_t i = first; i < end && !fits; ++i) {
      const Bundle& bundle = group.bundles[i];
      if (!each->amounts.fits_in(bundle.demand.amounts)) continue;
      fits = bundle.node && fits_in_room(each->amounts, i) && bundle.ledger->fits(each->amounts);
      if (fits || !wanted) wanted = i;
    }
    rooms.try_emplace(*wanted, room_of(*wanted)).first->second -= each->amounts;
    if (!fits) {
      ++each;
      continue;
    }
    Bundle& bundle = group.bundles[*wanted];
    Allotment allotment = bundle.ledger->take(each->amounts);
    ++bundle.users;
    seat(each->actor, Place{.node = bundle.node, .allotment = allotment, .group = group.id, .bundle = *wanted});
    effects.emplace_back(Placed{each->actor, bundle.node, std::move(allotment), *wanted});
    each = group.line.erase(each);
    --waiting_;
  }
}

/// Frees a bundle of a removed group, and removes the group with its last bundle.
void Placement::free_if_unused(Group& group, std::uint32_t index, PlacementEffects& effects) {
  Bundle& bundle = group.bundles[index];
  if (!group.removed || bundle.users != 0) return;
  if (bundle.node) {
    fleet_.give_back(*fleet_.find(bundle.node), bundle.allotment);
    unsettled_.insert(bundle.node);
    effects.emplace_back(BundleFreed{group.id, index, std::exchange(bundle.node, NodeId{})});
  }
  const bool is_last =
      std::none_of(group.bundles.begin(), group.bundles.end(), [](const Bundle& each) { return bool{each.node}; });
  if (is_last) groups_.erase(group.id);
}

void Placement::lose_bundles_at(NodeId node, PlacementEffects& effects) {
  std::vector<Group*> hit;
  for (auto& [id, group] : groups_) {
    bool lost = false;
    for (Bundle& bundle : group.bundles) {
      if (bundle.node != node) continue;
      bundle = Bundle{.demand = std::move(bundle.demand)};
      lost = true;
    }
    if (lost) hit.push_back(&group);
  }
  for (Group* const group : hit) {
    if (group->removed) {
      free_if_unused(*group, 0, effects);
      continue;
    }
    wait_for_places(*group, effects);
  }
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
  Group group{
      .id = id, .label = std::move(spec.label), .strategy = spec.strategy, .bundles = {}, .number = ++last_number_};
  for (std::size_t i = 0; i < places.size(); ++i) {
    Bundle& bundle = group.bundles.emplace_back(Bundle{.demand = std::move(spec.bundles[i])});
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
  if (found == groups_.end() || missing_of(found->second).empty()) return effects;
  wait_for_places(found->second, effects);
  settle(effects);
  return effects;
}

Error Placement::too_much(const Group& group) const {
  const std::string who = "group \"" + group.label + "\"";
  for (const Bundle& bundle : group.bundles) {
    if (!fleet_.could_fit(bundle.demand)) return fleet_.too_much(who, bundle.demand);
  }
  Resources all;
  for (const Bundle& bundle : group.bundles) all += bundle.demand.amounts;
  const std::size_t nodes = fleet_.by_use().size();
  std::string text =
      who + " asks for " + std::to_string(group.bundles.size()) + " bundles, together " + all.to_string();
  switch (group.strategy) {
    case Strategy::kStrictPack: text += ", on one node, and no node has that much"; break;
    case Strategy::kStrictSpread: text += ", each on a node of its own, and too few nodes are suitable"; break;
    default: text += ", which do not fit on the nodes";
  }
  text += "; there are " + std::to_string(nodes) + " nodes with " + fleet_.total().to_string();
  return {ErrorCode::kInvalidArgument, text, "Ask for less, or add nodes."};
}

}  // namespace pharos::scheduler
