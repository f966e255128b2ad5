#include <algorithm>
#include <unordered_map>
#include <utility>

#include <pharos/scheduler/group_state.hpp>

#include "packing.hpp"

namespace pharos::scheduler {

GroupState::GroupState(GroupId group, GroupSpec spec, std::uint64_t ordinal)
    : id{group}, label{std::move(spec.label)}, strategy{spec.strategy}, number{ordinal} {
  for (Demand& demand : spec.bundles) bundles.push_back({.demand = std::move(demand)});
}

std::vector<std::uint32_t> GroupState::missing() const {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t i = 0; i < bundles.size(); ++i) {
    if (!bundles[i].node) missing.push_back(i);
  }
  return missing;
}

bool GroupState::has_bundle_at(NodeId node) const {
  return std::any_of(bundles.begin(), bundles.end(), [node](const Bundle& bundle) { return bundle.node == node; });
}

std::vector<Fleet::Node*> GroupState::find_places(const Fleet& fleet, const std::vector<std::uint32_t>& wanted,
                                                  std::optional<std::uint64_t> before) const {
  using Node = Fleet::Node;
  std::vector<const Demand*> demands;
  for (const std::uint32_t index : wanted) demands.push_back(&bundles[index].demand);
  Packing packing{.nodes = fleet.by_use(), .may_fit = {}, .room = {}, .taken = {}};
  for (const Bundle& bundle : bundles) {
    if (bundle.node) packing.taken.insert(bundle.node);
  }
  if (before) {
    packing.may_fit = [](const Node& node, const Demand& demand) {
      return demand.amounts.fits_in(node.ledger.left()) && Fleet::could_fit(node, demand);
    };
    packing.room = [before](const Node& node) {
      ResourceLedger room = node.ledger;
      for (auto claim = node.claims.begin(); claim != node.claims.end() && claim->first < *before; ++claim) {
        room.take(Allotment{claim->second, {}});
      }
      return room;
    };
  } else {
    packing.may_fit = [](const Node& node, const Demand& demand) { return Fleet::could_fit(node, demand); };
    packing.room = [](const Node& node) { return ResourceLedger{node.ledger.total()}; };
  }
  return pack(demands, strategy, packing);
}

std::vector<const Resources*> GroupState::amounts_of(const std::vector<std::uint32_t>& of) const {
  std::vector<const Resources*> amounts;
  for (const std::uint32_t index : of) amounts.push_back(&bundles[index].demand.amounts);
  return amounts;
}

bool GroupState::plan_holds(const Fleet& fleet) {
  for (const auto& [node_id, planned] : plan) {
    const Fleet::Node& node = *fleet.find(node_id);
    ResourceLedger room = node.ledger;
    for (auto claim = node.claims.begin(); claim->first < number; ++claim) room.take(Allotment{claim->second, {}});
    if (room.find_allotments(amounts_of(planned)).empty()) {
      lacking = node_id;
      return false;
    }
  }
  return true;
}

Error GroupState::too_much(const Fleet& fleet) const {
  const std::string who = "group \"" + label + "\"";
  for (const Bundle& bundle : bundles) {
    if (!fleet.could_fit(bundle.demand)) return fleet.too_much(who, bundle.demand);
  }
  Resources all;
  for (const Bundle& bundle : bundles) all += bundle.demand.amounts;
  const std::size_t nodes = fleet.by_use().size();
  std::string text = who + " asks for " + std::to_string(bundles.size()) + " bundles, together " + all.to_string();
  switch (strategy) {
    case Strategy::kStrictPack: text += ", on one node, and no node has that much"; break;
    case Strategy::kStrictSpread: text += ", each on a node of its own, and too few nodes are suitable"; break;
    default: text += ", which do not fit on the nodes";
  }
  text += "; there are " + std::to_string(nodes) + " nodes with " + fleet.total().to_string();
  return {ErrorCode::kInvalidArgument, text, "Ask for less, or add nodes."};
}

std::vector<GroupState::Served> GroupState::serve(const Fleet& fleet) {
  std::vector<Served> served;
  if (line.empty()) return served;
  std::unordered_map<std::uint32_t, Resources> rooms;  // of bundles that an actor got or waits for in this loop
  const auto room_of = [&](std::uint32_t i) {
    const Bundle& bundle = bundles[i];
    return bundle.node ? bundle.ledger->left() : Resources{};
  };
  const auto fits_in_room = [&](const Resources& amounts, std::uint32_t i) {
    const auto taken = rooms.find(i);
    return amounts.fits_in(taken != rooms.end() ? taken->second : bundles[i].ledger->left());
  };
  const auto is_closed = [&](const Bundle& bundle) { return bundle.node && fleet.find(bundle.node)->closed; };
  for (auto each = line.begin(); each != line.end();) {
    std::optional<std::uint32_t> wanted;  // none if the actor can only get room on closed nodes
    bool fits = false;
    const std::uint32_t first = each->bundle.value_or(0);
    const std::uint32_t end = each->bundle ? first + 1 : static_cast<std::uint32_t>(bundles.size());
    for (std::uint32_t i = first; i < end && !fits; ++i) {
      const Bundle& bundle = bundles[i];
      if (is_closed(bundle) || !each->amounts.fits_in(bundle.demand.amounts)) continue;
      fits = bundle.node && fits_in_room(each->amounts, i) && bundle.ledger->fits(each->amounts);
      if (fits || !wanted) wanted = i;
    }
    if (wanted) rooms.try_emplace(*wanted, room_of(*wanted)).first->second -= each->amounts;
    if (!fits) {
      ++each;
      continue;
    }
    Bundle& bundle = bundles[*wanted];
    served.push_back({each->actor, *wanted, bundle.ledger->take(each->amounts)});
    ++bundle.users;
    each = line.erase(each);
  }
  return served;
}

bool GroupState::lose_node(NodeId node) {
  bool lost = false;
  for (Bundle& bundle : bundles) {
    if (bundle.node != node) continue;
    bundle = Bundle{.demand = std::move(bundle.demand)};
    lost = true;
  }
  return lost;
}

}  // namespace pharos::scheduler
