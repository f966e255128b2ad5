#include <algorithm>
#include <iterator>
#include <utility>

#include <pharos/scheduler/placement.hpp>

namespace pharos::scheduler {

PlacementEffects Placement::add_node(NodeId node, const Resources& total, Labels labels) {
  fleet_.close(fleet_.add(node, total, std::move(labels)));
  return open_node(node);
}

PlacementEffects Placement::open_node(NodeId id) {
  PlacementEffects effects;
  Node* const node = fleet_.find(id);
  if (node == nullptr || !node->closed) return effects;
  fleet_.open(*node);
  unsettled_.insert(id);
  for (auto& [group_id, group] : groups_) {
    if (group.has_bundle_at(id)) serve_group(group, effects);
    // Only groups without a plan can gain from a new node.
    if (!group.waits || !group.plan.empty() || place_now(group, group.number, effects)) continue;
    make_plan(group);
  }
  settle(effects);
  return effects;
}

PlacementEffects Placement::remove_node(NodeId node) {
  PlacementEffects effects;
  if (Node* const lost = fleet_.find(node)) fleet_.close(*lost);
  if (const auto seated = seated_.extract(node); !seated.empty()) {
    for (const ActorId actor : seated.mapped()) places_.erase(actor);
  }
  // Bundles are taken off the lost node first: a group that lost one here and waits for places of others must wait for
  // all of them at once.
  std::vector<Group*> hit;
  for (auto& [id, group] : groups_) {
    if (group.lose_node(node)) hit.push_back(&group);
  }
  for (Group* const group : hit) {
    if (group->removed) {
      free_if_unused(*group, 0, effects);
    } else {
      wait_for_places(*group, effects);
    }
  }
  auto others = close_node(node);
  std::move(others.begin(), others.end(), std::back_inserter(effects));
  fleet_.remove(node);
  settle(effects);
  return effects;
}

PlacementEffects Placement::close_node(NodeId id) {
  PlacementEffects effects;
  Node* const node = fleet_.find(id);
  if (node == nullptr) return effects;
  fleet_.close(*node);
  std::vector<Line*> lines;
  for (auto& [demand, line] : lines_) {
    if (line.claim == id) lines.push_back(&line);
  }
  for (Line* const line : lines) wait_elsewhere(*line, effects);
  for (auto& [group_id, group] : groups_) {
    if (!group.plan.contains(id)) continue;
    drop_plan(group);
    if (!place_now(group, group.number, effects)) make_plan(group);
  }
  settle(effects);
  return effects;
}

PlacementEffects Placement::place(ActorId actor, const std::string& label, const Demand& demand,
                                  const Preference& preference) {
  PlacementEffects effects;
  if (const auto line = lines_.find(demand); line != lines_.end()) {  // the first actor of the line has no room either
    wait_in_line(actor, label, demand, preference, *fleet_.find(line->second.claim));
  } else if (Node* const node = fleet_.choose(demand, preference)) {
    Allotment allotment = fleet_.take(*node, demand.amounts);
    seat(actor, Place{.node = node->id, .allotment = allotment});
    effects.emplace_back(Placed{actor, node->id, std::move(allotment)});
  } else if (Node* const claim = fleet_.choose_to_wait_for(demand)) {
    wait_in_line(actor, label, demand, preference, *claim);
  } else {
    effects.emplace_back(Unplaceable{actor, fleet_.too_much("actor \"" + label + "\"", demand)});
  }
  return effects;
}

PlacementEffects Placement::give_back(ActorId actor) {
  PlacementEffects effects;
  const auto found = places_.extract(actor);
  if (found.empty()) return effects;
  const Place& place = found.mapped();
  if (place.node) seated_.at(place.node).erase(actor);
  if (place.line != nullptr) {
    leave_line(*place.line, place.number);
  } else if (!place.group) {
    fleet_.give_back(*fleet_.find(place.node), place.allotment);
    unsettled_.insert(place.node);
  } else {
    Group& group = groups_.at(place.group);
    if (place.node) {
      Group::Bundle& bundle = group.bundles[place.bundle];
      bundle.ledger->give_back(place.allotment);
      --bundle.users;
      free_if_unused(group, place.bundle, effects);
    } else {
      waiting_ -= std::erase_if(group.line, [actor](const Group::Waiting& each) { return each.actor == actor; });
    }
    // free_if_unused() may have removed the group.
    if (const auto left = groups_.find(place.group); left != groups_.end()) serve_group(left->second, effects);
  }
  settle(effects);
  return effects;
}

void Placement::seat(ActorId actor, Place place) {
  seated_[place.node].insert(actor);
  places_.insert_or_assign(actor, std::move(place));
}

// ---- Lines

void Placement::wait_in_line(ActorId actor, const std::string& label, const Demand& demand,
                             const Preference& preference, Node& claim) {
  const std::uint64_t number = ++last_number_;
  const auto [at, is_new] = lines_.try_emplace(demand);
  Line& line = at->second;
  if (is_new) {
    line.demand = &at->first;
    line.claim = claim.id;
    fleet_.claim(claim, number, demand.amounts);
    turns_.add({number, line.demand->amounts.cpus(), &line, nullptr});
  }
  line.waiting.emplace(number, Waiting{actor, label, preference});
  places_.insert_or_assign(actor, Place{.line = &line, .number = number});
  ++waiting_;
}

void Placement::serve_first(Line& line, Node& node, PlacementEffects& effects) {
  const auto [number, first] = *line.waiting.begin();
  Allotment allotment = fleet_.take(node, line.demand->amounts);
  seat(first.actor, Place{.node = node.id, .allotment = allotment});
  effects.emplace_back(Placed{first.actor, node.id, std::move(allotment)});
  leave_line(line, number);
}

void Placement::leave_line(Line& line, std::uint64_t number) {
  const bool was_first = line.waiting.begin()->first == number;
  line.waiting.erase(number);
  --waiting_;
  if (!was_first) return;
  // The claim passes to the next actor of the line. That actor is younger than some others that wait, and those may
  // have room on the node because the claim no longer comes before theirs.
  unsettled_.insert(line.claim);
  turns_.erase(number);
  Node& claim = *fleet_.find(line.claim);
  if (line.waiting.empty()) {
    fleet_.unclaim(claim, number);
    lines_.erase(*line.demand);
    return;
  }
  const std::uint64_t next = line.waiting.begin()->first;
  fleet_.pass_claim(claim, number, next);
  turns_.add({next, line.demand->amounts.cpus(), &line, nullptr});
}

// To be called when the node with the line's claim is closed.
void Placement::wait_elsewhere(Line& line, PlacementEffects& effects) {
  const std::uint64_t number = line.waiting.begin()->first;
  fleet_.unclaim(*fleet_.find(line.claim), number);
  if (Node* const other = fleet_.choose_to_wait_for(*line.demand)) {
    line.claim = other->id;
    return fleet_.claim(*other, number, line.demand->amounts);
  }
  for (const auto& [each, waiting] : line.waiting) {
    places_.erase(waiting.actor);
    effects.emplace_back(Unplaceable{waiting.actor, fleet_.too_much("actor \"" + waiting.label + "\"", *line.demand)});
  }
  waiting_ -= line.waiting.size();
  turns_.erase(number);
  lines_.erase(*line.demand);
}

void Placement::settle(PlacementEffects& effects) {
  while (!unsettled_.empty()) {
    const NodeId id = unsettled_.extract(unsettled_.begin()).value();
    Node* const node = fleet_.find(id);
    if (node != nullptr && !node->closed) settle_at(*node, effects);
  }
}

// Between two events nothing that waits has room anywhere. So only nodes that have changed need to be examined.
void Placement::settle_at(Node& node, PlacementEffects& effects) {
  Resources room = node.ledger.left();
  std::int64_t cpus = room.cpus();
  auto claim = node.claims.begin();
  for (auto turn = turns_.begin(); turn != turns_.end();) {
    const Turn next = *turn;
    const std::uint64_t number = next.number;
    const bool claimed = claim != node.claims.end() && claim->first == number;
    if (!claimed && next.cpus > std::max<std::int64_t>(cpus, 0)) {  // true for nearly all turns
      ++turn;
      continue;
    }
    if (room.none_left()) return;
    if (next.group != nullptr ? settle_group_at(*next.group, node, room, effects)
                              : settle_line_at(*next.line, node, room, effects)) {
      room = node.room_before(number + 1);
      turn = turns_.behind(number);
      claim = node.claims.upper_bound(number);
    } else {
      if (claimed) room -= (claim++)->second;
      ++turn;
    }
    cpus = room.cpus();
  }
}

bool Placement::settle_line_at(Line& line, Node& node, const Resources& room, PlacementEffects& effects) {
  const Demand& demand = *line.demand;
  if (!demand.amounts.fits_in(room) || !Fleet::could_fit(node, demand) || !node.ledger.fits(demand.amounts)) {
    return false;
  }
  serve_first(line, node, effects);
  return true;
}

// ---- Restoring

bool Placement::restore(ActorId actor, NodeId id, const Allotment& allotment) {
  Node* const node = fleet_.find(id);
  if (node == nullptr || places_.contains(actor) || !node->ledger.fits(allotment)) return false;
  fleet_.take(*node, allotment);
  seat(actor, Place{.node = id, .allotment = allotment});
  return true;
}

bool Placement::restore_in_group(ActorId actor, GroupId id, std::uint32_t index, const Allotment& allotment) {
  const auto group = groups_.find(id);
  if (group == groups_.end() || index >= group->second.bundles.size() || places_.contains(actor)) return false;
  Group::Bundle& bundle = group->second.bundles[index];
  if (!bundle.node || !bundle.ledger->fits(allotment)) return false;
  bundle.ledger->take(allotment);
  ++bundle.users;
  seat(actor, Place{.node = bundle.node, .allotment = allotment, .group = id, .bundle = index});
  return true;
}

std::optional<Placement::Seat> Placement::seat_of(ActorId actor) const {
  const auto found = places_.find(actor);
  if (found == places_.end() || !found->second.node) return std::nullopt;
  const Place& place = found->second;
  return Seat{place.node, &place.allotment, place.group, place.bundle};
}

const GroupState* Placement::find_group(GroupId id) const {
  const auto group = groups_.find(id);
  return group == groups_.end() ? nullptr : &group->second;
}

// ---- Other

Placement::Shortage Placement::shortage_of(const Demand& demand) const {
  Resources total;
  Resources left;
  std::vector<NodeId> nodes;
  for (const Node* const node : fleet_.all()) {
    if (!Fleet::could_fit(*node, demand)) continue;
    total += node->ledger.total();
    left += node->ledger.left();
    nodes.push_back(node->id);
  }
  Shortage shortage{demand.amounts.use(total, left), {}};
  const Resources scarce = demand.amounts.scarce_in(left);
  for (const NodeId node : nodes) {
    const auto seated = seated_.find(node);
    if (seated == seated_.end()) continue;
    std::copy_if(seated->second.begin(), seated->second.end(), std::back_inserter(shortage.holders),
                 [&](ActorId actor) { return !scarce.as_in(places_.at(actor).allotment.amounts).empty(); });
  }
  std::sort(shortage.holders.begin(), shortage.holders.end());
  return shortage;
}

std::size_t Placement::seated() const {
  std::size_t all = 0;
  for (const auto& [node, actors] : seated_) all += actors.size();
  return all;
}

std::string Placement::check() const {
  std::string wrong;
  const auto take = [&](ResourceLedger& from, const Allotment& allotment, const std::string& whose) {
    if (!from.fits(allotment)) wrong += whose + " has given " + allotment.amounts.to_string() + " that it has not\n";
    from.take(allotment);
  };
  std::map<std::pair<NodeId, std::uint32_t>, std::int64_t> devices;
  const auto take_of = [&](NodeId node, ResourceLedger& from, const Allotment& allotment) {
    take(from, allotment, "node " + pharos::to_string(node));
    for (const GpuShare& share : allotment.gpus) {
      if ((devices[{node, share.index}] += share.amount) > Resources::kWhole) wrong += "a GPU is given twice\n";
    }
  };
  // The state that follows from all places.
  std::unordered_map<NodeId, ResourceLedger> nodes;
  for (const Node* const node : fleet_.all()) nodes.emplace(node->id, ResourceLedger{node->ledger.total()});
  std::map<std::pair<GroupId, std::uint32_t>, std::pair<ResourceLedger, std::size_t>>
      bundles;  // with the number of users
  std::size_t waiting = 0;
  for (const auto& [demand, line] : lines_) waiting += line.waiting.size();
  for (const auto& [id, group] : groups_) {
    waiting += group.line.size() + (group.waits ? 1 : 0);
    for (std::uint32_t index = 0; index < group.bundles.size(); ++index) {
      const Group::Bundle& bundle = group.bundles[index];
      if (!bundle.node) continue;
      take_of(bundle.node, nodes.at(bundle.node), bundle.allotment);
      bundles.emplace(std::pair{id, index}, std::pair{ResourceLedger{bundle.allotment}, 0});
    }
  }
  for (const auto& [actor, place] : places_) {
    if (!place.node) continue;
    if (!seated_.at(place.node).contains(actor)) wrong += "an actor is not where its place is\n";
    if (!place.group) {
      take_of(place.node, nodes.at(place.node), place.allotment);
      continue;
    }
    auto& [ledger, users] = bundles.at({place.group, place.bundle});
    take(ledger, place.allotment, "bundle " + std::to_string(place.bundle));
    ++users;
  }
  for (const Node* const node : fleet_.all()) {
    if (node->ledger == nodes.at(node->id)) continue;
    wrong += "node " + pharos::to_string(node->id) + " has " + node->ledger.left().to_string() + " left, and should " +
             nodes.at(node->id).left().to_string() + '\n';
  }
  for (const auto& [key, has] : bundles) {
    const Group::Bundle& bundle = groups_.at(key.first).bundles[key.second];
    if (*bundle.ledger != has.first || bundle.users != has.second) wrong += "a bundle counts wrongly\n";
  }
  if (waiting_ != waiting) wrong += std::to_string(waiting) + " wait, not " + std::to_string(waiting_) + '\n';
  return wrong;
}

}  // namespace pharos::scheduler
