#include "head/group_table.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "head/head_keys.hpp"
#include "head/patience.hpp"
#include "head/shares.hpp"
#include "node/demands.hpp"

namespace pharos::node::head {
namespace {

Result<scheduler::GroupSpec> spec_of_group(const wire::PlaceGroup& place) {
  scheduler::GroupSpec spec{place.label, {}, place.strategy};
  for (const wire::Demand& bundle : place.bundles) {
    auto demand = checked(bundle);
    if (!demand) return std::move(demand).error().with("group \"" + place.label + "\"");
    spec.bundles.push_back(*std::move(demand));
  }
  return spec;
}

/// Returns the place of each bundle; empty if nothing is left of the group.
std::vector<scheduler::Placement::BundlePlace> places_in(const scheduler::Placement& placement, GroupId id) {
  std::vector<scheduler::Placement::BundlePlace> places;
  const scheduler::GroupState* const group = placement.find_group(id);
  if (group == nullptr) return places;
  for (const auto& bundle : group->bundles) places.push_back({bundle.node, bundle.allotment});
  return places;
}

}  // namespace

bool GroupTable::Group::has_places() const {
  return std::all_of(nodes.begin(), nodes.end(), [](NodeId node) { return bool{node}; });
}

// ---- Messages

void GroupTable::place(NodeId from, wire::PlaceGroup place) {
  const auto refuse = [&](Error why) { events_.tell(from, wire::Refused{place.asker.number, std::move(why)}); };
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
    group.patience = patience_of(place.bundles.front());
    refuse_later(place.group, group.patience);
    return answer_if_held(group);
  }
  if (place.bundles.empty() || place.bundles.size() > scheduler::GroupSpec::kBundlesMax) {
    return refuse({ErrorCode::kInvalidArgument,
                   "group \"" + place.label + "\" has " + std::to_string(place.bundles.size()) + " bundles",
                   "Give it between 1 and " + std::to_string(scheduler::GroupSpec::kBundlesMax) + "."});
  }
  auto spec = spec_of_group(place);
  if (!spec) return refuse(std::move(spec).error());
  if (recovery_.is_under_way()) return recovery_.put_off(from, std::move(place));
  const Duration patience = patience_of(place.bundles.front());
  events_.put(group_key(place.group), place);
  changed_.insert(place.group);
  groups_.emplace(place.group, Group{.asker = place.asker,
                                     .asked_from = from,
                                     .label = place.label,
                                     .strategy = place.strategy,
                                     .bundles = spec->bundles,
                                     .nodes = std::vector<NodeId>(place.bundles.size()),
                                     .unheld = {},
                                     .patience = patience});
  effects_.apply(placement_.place_group(place.group, *std::move(spec), patience != Duration{}));
  refuse_later(place.group, patience);
}

/// Refuses the group after this time if the nodes could never hold it, unless it has had places before.
void GroupTable::refuse_later(GroupId id, Duration patience) {
  if (patience == Duration{}) return;
  events_.run_later(patience, [this, id] {
    const Group* const group = find(id);
    if (group != nullptr && !group->answered) effects_.apply(placement_.refuse_hopeless(id));
  });
}

void GroupTable::remove(NodeId from, const wire::RemoveGroup& remove) {
  const Group* const group = find(remove.group);
  if (group == nullptr && recovery_.is_under_way()) return recovery_.put_off(from, remove);
  if (group != nullptr && group->asker.job == remove.asker.job) this->remove(remove.group);
}

void GroupTable::note_held(NodeId from, const wire::BundleHeld& held) {
  const auto found = groups_.find(held.group);
  if (found == groups_.end()) return;
  Group& group = found->second;
  if (held.bundle >= group.nodes.size() || group.nodes[held.bundle] != from) return;
  group.unheld.erase(held.bundle);
  answer_if_held(group);
}

void GroupTable::answer_if_held(Group& group) {
  if (!group.unheld.empty() || std::exchange(group.answered, true)) return;
  events_.tell(group.asked_from, wire::GroupReady{group.asker.number, group.nodes});
}

// ---- Effects of Placement

void GroupTable::note_placed(const scheduler::GroupPlaced& placed) {
  Group& group = groups_.at(placed.group);
  changed_.insert(placed.group);
  for (const scheduler::PlacedBundle& bundle : placed.bundles) {
    group.nodes[bundle.index] = bundle.node;
    group.unheld.insert(bundle.index);
    hold(placed.group, bundle.index, bundle.node, bundle.allotment);
  }
}

void GroupTable::hold(GroupId group, std::uint32_t index, NodeId node, const scheduler::Allotment& allotment) {
  events_.tell(node, wire::HoldBundle{group, index, allotment.amounts.amounts(), to_wire(allotment.gpus)});
}

void GroupTable::refuse(const scheduler::GroupUnplaceable& refused) {
  const Group forgotten = groups_.extract(refused.group).mapped();
  changed_.insert(refused.group);
  events_.tell(forgotten.asked_from,
               wire::Refused{forgotten.asker.number, waited_in_vain(refused.why, forgotten.patience)});
}

void GroupTable::release(const scheduler::BundleFreed& freed) {
  changed_.insert(freed.group);
  events_.tell(freed.node, wire::ReleaseBundle{freed.group, freed.index});
}

// ---- Events elsewhere

void GroupTable::remove(GroupId id) {
  const auto removed = groups_.extract(id);
  if (removed.empty()) return;
  changed_.insert(id);
  const Group& group = removed.mapped();
  if (!group.answered) {
    events_.tell(group.asked_from,
                 wire::Refused{group.asker.number, Error{ErrorCode::kCancelled, "the group was removed"}});
  }
  effects_.apply(placement_.remove_group(id));
}

void GroupTable::remove_if(const std::function<bool(const Group&)>& goes) {
  std::vector<GroupId> going;
  for (const auto& [id, group] : groups_) {
    if (goes(group)) going.push_back(id);
  }
  for (const GroupId group : going) remove(group);
}

void GroupTable::end_caller(CallerId caller) {
  remove_if([caller](const Group& group) { return group.asker.caller == caller; });
}

void GroupTable::end_job(JobId job) {
  remove_if([job](const Group& group) { return group.asker.job == job; });
}

void GroupTable::lose_node(NodeId node) {
  for (auto& [id, group] : groups_) {
    for (std::uint32_t bundle = 0; bundle < group.nodes.size(); ++bundle) {
      if (group.nodes[bundle] != node) continue;
      group.nodes[bundle] = {};
      group.unheld.insert(bundle);
      changed_.insert(id);
    }
  }
  changed_.insert(removed_.begin(), removed_.end());
}

bool GroupTable::may_use(const wire::Demand& demand, JobId job) const {
  if (!demand.group) return true;
  const Group* const group = find(demand.group);
  return group != nullptr && group->asker.job == job;
}

Result<std::optional<GroupTable::Spot>> GroupTable::find_spot(const wire::Demand& demand, JobId job,
                                                              std::optional<std::uint32_t> but_not) {
  const auto found = groups_.find(demand.group);
  if (found == groups_.end() || found->second.asker.job != job) {
    return Error{ErrorCode::kNotFound, "a task asks for a group that was removed"};
  }
  Group& group = found->second;
  const auto bundles = static_cast<std::uint32_t>(group.bundles.size());
  if (demand.bundle >= 0 && static_cast<std::uint32_t>(demand.bundle) >= bundles) {
    return Error{ErrorCode::kInvalidArgument,
                 "a task asks for bundle " + std::to_string(demand.bundle) + " of group \"" + group.label +
                     "\", which has " + std::to_string(bundles),
                 "Bundles are counted from 0."};
  }
  const scheduler::Resources amounts{demand.amounts};
  const scheduler::GroupState* const state = placement_.find_group(demand.group);
  bool could_fit = false;
  std::optional<Spot> spot;
  for (std::uint32_t i = 1; i <= bundles; ++i) {
    const std::uint32_t bundle =
        demand.bundle >= 0 ? static_cast<std::uint32_t>(demand.bundle) : (group.last_spot + i) % bundles;
    if (!amounts.fits_in(group.bundles[bundle].amounts)) continue;
    could_fit = true;
    const bool is_here = group.nodes[bundle] && !group.unheld.contains(bundle);
    if (!is_here || bundle == but_not) continue;
    const bool has_room =
        state != nullptr && state->bundles[bundle].ledger && state->bundles[bundle].ledger->fits(amounts);
    if (!spot || has_room) spot = Spot{group.nodes[bundle], bundle};
    if (has_room) break;
  }
  if (!could_fit) {
    const std::string whose = demand.bundle >= 0
                                  ? "bundle " + std::to_string(demand.bundle) + " of group \"" + group.label + "\""
                                  : "no bundle of group \"" + group.label + "\" has more; the first";
    const auto& all = group.bundles[demand.bundle >= 0 ? static_cast<std::size_t>(demand.bundle) : 0].amounts;
    return Error{ErrorCode::kInvalidArgument, "a task asks for " + amounts.shortage(all, whose),
                 "Ask for less, or give the group larger bundles."};
  }
  if (spot) group.last_spot = spot->bundle;
  return spot;
}

const GroupTable::Group* GroupTable::find(GroupId group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? nullptr : &found->second;
}

// ---- Records and recovery

void GroupTable::write_changes() {
  for (const GroupId group : std::exchange(changed_, {})) {
    if (!events_.has_records()) continue;
    const auto places = places_record(group);
    if (!places) {
      events_.erase(group_key(group));
      events_.erase(places_key(group));
      removed_.erase(group);
      continue;
    }
    if (places->removed) removed_.insert(group);
    events_.put(places_key(group), *places);
  }
}

/// Returns nullopt if nothing is left of the group.
std::optional<wire::GroupPlaces> GroupTable::places_record(GroupId group) const {
  const auto places = places_in(placement_, group);
  if (places.empty()) return std::nullopt;
  wire::GroupPlaces record{.group = group, .places = {}, .removed = !groups_.contains(group)};
  for (const auto& place : places) record.places.push_back(share_of(place.node, place.allotment));
  return record;
}

void GroupTable::add_records(std::map<std::string, std::optional<wire::Message>>& to) const {
  const auto add = [&](GroupId group) {
    to.emplace(group_key(group), std::nullopt);
    if (auto places = places_record(group)) to.emplace(places_key(group), *std::move(places));
  };
  for (const auto& [id, group] : groups_) add(id);
  for (const GroupId group : removed_) add(group);
}

bool GroupTable::restore(const wire::PlaceGroup* place, const wire::GroupPlaces* places, bool job_lasts) {
  if (place == nullptr || places == nullptr) return false;
  if (!job_lasts) {
    // The nodes end the actors that still use the group, and give its resources to nobody before that.
    if (places->removed) changed_.insert(place->group);
    return places->removed;
  }
  auto spec = spec_of_group(*place);
  if (!spec) return false;
  Group group{.asker = place->asker,
              .asked_from = {},
              .label = place->label,
              .strategy = place->strategy,
              .bundles = spec->bundles,
              .nodes = {},
              .unheld = {},
              .answered = true};
  std::vector<scheduler::Placement::BundlePlace> found;
  for (const wire::NodeResources& share : places->places) {
    auto allotment = allotment_of(share);
    if (!allotment) return false;
    found.push_back({share.node, *std::move(allotment)});
  }
  if (!placement_.restore_group(place->group, *std::move(spec), found)) return false;
  if (places->removed) return true;
  std::uint32_t index = 0;
  for (const auto& bundle : places_in(placement_, place->group)) {
    group.nodes.push_back(bundle.node);
    group.unheld.insert(index);
    if (bundle.node) group.restored.insert(index);
    ++index;
  }
  groups_.emplace(place->group, std::move(group));
  return true;
}

void GroupTable::remove_again(GroupId group) {
  changed_.insert(group);
  effects_.apply(placement_.remove_group(group));
}

void GroupTable::replace_all() {
  std::vector<GroupId> groups;
  for (const auto& [id, group] : groups_) groups.push_back(id);
  for (const GroupId group : groups) effects_.apply(placement_.replace_group(group));
}

// Bundles that the node has and the records do not have there are released. Bundles that the node does not have were
// never told to it, and are told now.
void GroupTable::take_report(NodeId from, const wire::Report& report) {
  const auto key_of = [](const wire::Report::Bundle& each) { return std::pair{each.group, each.bundle}; };
  std::set<std::pair<GroupId, std::uint32_t>> unheld;
  for (const auto& each : report.unheld) unheld.insert(key_of(each));
  std::vector<scheduler::Placement::BundlePlace> places;
  GroupId last;  // the bundles are reported group by group
  for (const auto& each : report.bundles) {
    if (std::exchange(last, each.group) != each.group) places = places_in(placement_, each.group);
    if (each.bundle >= places.size() || places[each.bundle].node != from) {
      events_.tell(from, wire::ReleaseBundle{each.group, each.bundle});
      continue;
    }
    const auto group = groups_.find(each.group);
    if (group == groups_.end()) continue;
    group->second.restored.erase(each.bundle);
    if (!unheld.contains(key_of(each))) note_held(from, {each.group, each.bundle});
  }
  for (auto& [id, group] : groups_) {
    if (group.restored.empty()) continue;
    places = places_in(placement_, id);
    std::erase_if(group.restored, [&, id = id](std::uint32_t index) {
      if (places[index].node != from) return false;
      hold(id, index, from, places[index].allotment);
      return true;
    });
  }
}

}  // namespace pharos::node::head
