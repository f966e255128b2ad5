#include <algorithm>
#include <optional>

#include <pharos/scheduler/placement.hpp>

namespace pharos::scheduler {

double Placement::Node::load() const {
  return users / static_cast<double>(std::max(ledger.total().cpus(), Resources::kWhole));
}

PlacementEffects Placement::add_node(NodeId node, const Resources& total) {
  nodes_.insert_or_assign(node, Node{Ledger{total}});
  PlacementEffects effects;
  place_what_fits(effects);
  return effects;
}

PlacementEffects Placement::remove_node(NodeId node) {
  nodes_.erase(node);
  std::erase_if(placed_, [node](const auto& entry) { return entry.second.node == node; });
  PlacementEffects effects;
  refuse_what_never_fits(effects);
  return effects;
}

PlacementEffects Placement::place(ActorId actor, const std::string& label, const Resources& demand, NodeId asked_at) {
  PlacementEffects effects;
  if (!could_fit(demand)) {
    effects.emplace_back(Unplaceable{actor, too_much("actor \"" + label + "\"", demand)});
    return effects;
  }
  waiting_.push(demand, {actor, label, asked_at});
  place_what_fits(effects);
  return effects;
}

PlacementEffects Placement::give_back(ActorId actor) {
  PlacementEffects effects;
  if (const auto place = placed_.extract(actor); !place.empty()) {
    Node& node = nodes_.at(place.mapped().node);
    node.ledger.give_back(place.mapped().allotment);
    --node.users;
  } else {
    waiting_.erase_if([actor](const Resources&, const Waiting& waiting) { return waiting.actor == actor; });
  }
  place_what_fits(effects);
  return effects;
}

void Placement::place_what_fits(PlacementEffects& effects) {
  if (waiting_.empty()) return;
  Rooms rooms;
  for (const auto& [id, node] : nodes_) rooms.emplace(id, node.ledger.left());
  waiting_.serve(
      [&](const Resources& demand, const Waiting& waiting) { return offer(demand, waiting, rooms, effects); });
}

bool Placement::offer(const Resources& demand, const Waiting& waiting, Rooms& rooms, PlacementEffects& effects) {
  std::optional<NodeId> best;
  bool best_fits = false;
  for (const auto& [id, node] : nodes_) {
    if (!node.ledger.could_fit(demand)) continue;
    const bool fits = demand.fits_in(rooms.at(id)) && node.ledger.fits(demand);
    if (best && best_fits && !fits) continue;
    const double best_load = best ? nodes_.at(*best).load() : 0;
    if (!best || fits != best_fits || node.load() < best_load || (node.load() == best_load && id == waiting.asked_at)) {
      best = id;
      best_fits = fits;
    }
  }
  if (!best) return false;
  rooms.at(*best) -= demand;
  if (!best_fits) return false;
  Node& node = nodes_.at(*best);
  Place place{*best, node.ledger.take(demand)};
  ++node.users;
  effects.emplace_back(Placed{waiting.actor, place.node, place.allotment});
  placed_.insert_or_assign(waiting.actor, std::move(place));
  return true;
}

void Placement::refuse_what_never_fits(PlacementEffects& effects) {
  waiting_.serve([&](const Resources& demand, const Waiting& waiting) {
    if (could_fit(demand)) return false;
    effects.emplace_back(Unplaceable{waiting.actor, too_much("actor \"" + waiting.label + "\"", demand)});
    return true;
  });
}

bool Placement::could_fit(const Resources& demand) const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [&](const auto& entry) { return entry.second.ledger.could_fit(demand); });
}

Resources Placement::total() const {
  Resources total;
  for (const auto& [id, node] : nodes_) total += node.ledger.total();
  return total;
}

Placement::Shortage Placement::shortage_of(const Resources& demand) const {
  Resources total;
  Resources left;
  for (const auto& [id, node] : nodes_) {
    if (!node.ledger.could_fit(demand)) continue;
    total += node.ledger.total();
    left += node.ledger.left();
  }
  Shortage shortage{demand.use(total, left), {}};
  const Resources scarce = demand.scarce_in(left);
  for (const auto& [actor, place] : placed_) {
    if (nodes_.at(place.node).ledger.could_fit(demand) && !scarce.as_in(place.allotment.amounts).empty()) {
      shortage.holders.push_back(actor);
    }
  }
  std::sort(shortage.holders.begin(), shortage.holders.end());
  return shortage;
}

Result<NodeId> Placement::find_node(const Resources& demand, const std::string& who) const {
  std::optional<NodeId> best;
  for (const auto& [id, node] : nodes_) {
    if (!node.ledger.could_fit(demand)) continue;
    if (!best || node.load() < nodes_.at(*best).load()) best = id;
  }
  if (!best) return too_much(who, demand);
  return *best;
}

void Placement::count_leases(NodeId node, int more) {
  if (const auto found = nodes_.find(node); found != nodes_.end()) found->second.users += more;
}

// Compared with the node that lacks the fewest of what is asked for.
Error Placement::too_much(const std::string& who, const Resources& demand) const {
  const Node* nearest = nullptr;
  std::int64_t nearest_lacks = 0;
  for (const auto& [id, node] : nodes_) {
    std::int64_t lacks = 0;
    for (const auto& [name, amount] : demand.amounts()) {
      lacks += std::max<std::int64_t>(amount - node.ledger.total().of(name), 0);
    }
    if (nearest != nullptr && lacks >= nearest_lacks) continue;
    nearest = &node;
    nearest_lacks = lacks;
  }
  const char* const whose = nodes_.size() == 1 ? "the node" : "the node that comes nearest";
  return {ErrorCode::kInvalidArgument,
          who + " asks for " +
              (nearest == nullptr ? demand.to_string() + "; there is no node"
                                  : demand.shortage(nearest->ledger.total(), whose)),
          "Ask for less, or add a node that has it (PHAROS_RESOURCES says what a node has)."};
}

}  // namespace pharos::scheduler
