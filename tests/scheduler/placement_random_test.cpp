// Runs random workloads and checks after every step: no resource is given twice, a group is placed as a whole or not at
// all, and the actor or group that has waited for longest waits only while there is no room.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <pharos/scheduler/placement.hpp>

#include "resources_of.hpp"
#include "seed.hpp"

namespace pharos::scheduler {
namespace {

constexpr int kWorkloads = 10'000;

class PlacementRandom : public SeededTest {
 protected:
  struct Machine {
    Resources total;
    Labels labels;
    bool closed = false;
  };
  struct Held {
    NodeId node;
    Allotment allotment;
  };
  struct Actor {
    std::uint64_t number;
    Demand demand;
    std::optional<Held> held{};
    std::uint64_t group = 0;
    std::optional<std::uint32_t> bundle{};
  };
  struct Group {
    std::uint64_t number;
    Strategy strategy;
    std::vector<Demand> bundles;
    std::map<std::uint32_t, Held> held{};
  };

  void run_workload() {
    reset();
    for (std::size_t i = between(1, 5); i > 0; --i) add_node();
    for (std::size_t step = between(20, 80); step > 0; --step) {
      take_step();
      check();
      if (HasFatalFailure()) return;
    }
    end();
  }

  void reset() {
    placement_.reset();
    fleet_.emplace();
    placement_.emplace(*fleet_);
    nodes_.clear();
    actors_.clear();
    groups_.clear();
    removed_.clear();
    last_id_ = last_number_ = 0;
    nodes_have_gone_ = false;
  }

  // ---- The steps

  void take_step() {
    const std::size_t what = between(0, 99);
    if (what < 40) return place_actor();
    if (what < 55) return place_group();
    if (what < 65 && !groups_.empty()) return place_in_group();
    if (what < 90 && !actors_.empty()) return give_back(std::next(actors_.begin(), pick(actors_.size()))->first);
    if (what == 90 && !groups_.empty()) {
      return apply(placement_->refuse_hopeless(GroupId{std::next(groups_.begin(), pick(groups_.size()))->first}));
    }
    if (what < 94 && !groups_.empty()) return remove_group(std::next(groups_.begin(), pick(groups_.size()))->first);
    if (what < 96) return add_node();
    if (what < 98 && nodes_.size() > 1) return remove_node(std::next(nodes_.begin(), pick(nodes_.size()))->first);
    const auto node = std::next(nodes_.begin(), pick(nodes_.size()));
    nodes_have_gone_ = true;
    if (node->second.closed) return apply(placement_->vacate(node->first));
    node->second.closed = true;
    apply(placement_->close_node(node->first));
  }
  std::ptrdiff_t pick(std::size_t count) { return static_cast<std::ptrdiff_t>(between(0, count - 1)); }

  Resources some_amounts() {
    static const std::vector<std::string> kShapes{
        "",        "cpu=1", "cpu=2", "cpu=0.5",     "gpu=0.5",      "gpu=0.3", "gpu=0.4",
        "gpu=0.7", "gpu=1", "gpu=2", "cpu=1,gpu=1", "cpu=1,fast=1", "cpu=3"};
    return of(kShapes[between(0, kShapes.size() - 1)]);
  }
  Demand some_demand() {
    Demand demand{some_amounts()};
    if (chance(6)) demand.labels.push_back({"zone", {chance(2) ? "a" : "b"}, chance(3)});
    if (chance(12)) demand.only = std::next(nodes_.begin(), pick(nodes_.size()))->first;
    return demand;
  }

  void add_node() {
    const NodeId node{++last_id_};
    Machine machine{of("cpu=" + std::to_string(between(1, 4)) + ",gpu=" + std::to_string(between(0, 2)) +
                       ",fast=" + std::to_string(between(0, 1))),
                    {}};
    if (!chance(3)) machine.labels.emplace("zone", chance(2) ? "a" : "b");
    nodes_.emplace(node, machine);
    apply(placement_->add_node(node, machine.total, machine.labels));
  }
  void remove_node(NodeId node) {
    nodes_have_gone_ = true;
    nodes_.erase(node);
    std::erase_if(actors_, [&](const auto& entry) { return entry.second.held && entry.second.held->node == node; });
    for (auto& [id, group] : groups_) {
      std::erase_if(group.held, [&](const auto& entry) { return entry.second.node == node; });
    }
    std::erase_if(removed_, [&](const auto& entry) { return entry.second.node == node; });
    apply(placement_->remove_node(node));
  }
  void place_actor() {
    const ActorId actor{++last_id_};
    const Actor& asks = actors_[actor] = {++last_number_, some_demand()};
    const Preference preference{NodeId{between(0, last_id_)}, NodeId{between(0, last_id_)}, chance(3)};
    apply(placement_->place(actor, "a", asks.demand, preference));
  }
  void place_in_group() {
    const auto group = std::next(groups_.begin(), pick(groups_.size()));
    const ActorId actor{++last_id_};
    Actor asks{++last_number_, {some_amounts()}, {}, group->first};
    if (chance(2)) asks.bundle = static_cast<std::uint32_t>(between(0, group->second.bundles.size() - 1));
    actors_[actor] = asks;
    apply(placement_->place_in_group(actor, "a", asks.demand.amounts, GroupId{group->first}, asks.bundle));
  }
  void place_group() {
    const std::uint64_t id = ++last_id_;
    Group group{++last_number_, static_cast<Strategy>(between(0, 3)), {}};
    for (std::size_t i = between(1, 4); i > 0; --i) group.bundles.push_back(some_demand());
    GroupSpec spec{"g", group.bundles, group.strategy};
    groups_.emplace(id, std::move(group));
    const bool patient = chance(4);
    if (patient) nodes_have_gone_ = true;  // as after the loss of a node, the group may wait for ever
    apply(placement_->place_group(GroupId{id}, std::move(spec), patient));
  }
  void give_back(ActorId actor) {
    const std::uint64_t group = actors_.extract(actor).mapped().group;
    free_removed(group);
    apply(placement_->give_back(actor));
  }
  void remove_group(std::uint64_t id) {
    const Group removed = groups_.extract(id).mapped();
    for (const auto& [index, held] : removed.held) removed_.emplace(std::pair{id, index}, held);
    std::erase_if(actors_, [&](const auto& entry) { return entry.second.group == id && !entry.second.held; });
    free_removed(id);
    apply(placement_->remove_group(GroupId{id}));
  }
  /// Frees the bundles of a removed group that no actor uses.
  void free_removed(std::uint64_t group) {
    std::erase_if(removed_, [&](const auto& entry) {
      return entry.first.first == group && std::none_of(actors_.begin(), actors_.end(), [&](const auto& actor) {
               return actor.second.group == group && actor.second.bundle == entry.first.second;
             });
    });
  }

  // ---- The effects

  void apply(const PlacementEffects& effects) {
    for (const auto& effect : effects) {
      if (const auto* const placed = std::get_if<Placed>(&effect)) {
        take(*placed);
      } else if (const auto* const nowhere = std::get_if<Unplaceable>(&effect)) {
        refuse(nowhere->actor);
      } else if (const auto* const group = std::get_if<GroupPlaced>(&effect)) {
        take(*group);
      } else if (const auto* const freed = std::get_if<BundleFreed>(&effect)) {
        ASSERT_FALSE(removed_.contains({freed->group.value(), freed->index})) << "somebody has some of it";
        free_left(*freed);
      } else {
        const std::uint64_t id = std::get<GroupUnplaceable>(effect).group.value();
        ASSERT_TRUE(groups_.contains(id) && groups_.at(id).held.empty());
        groups_.erase(id);
      }
    }
  }
  /// A bundle has left its closed node, unless it was freed with its group.
  void free_left(const BundleFreed& freed) {
    const auto group = groups_.find(freed.group.value());
    if (group == groups_.end()) return;
    const auto held = group->second.held.find(freed.index);
    ASSERT_TRUE(held != group->second.held.end() && held->second.node == freed.node);
    ASSERT_TRUE(nodes_.at(freed.node).closed);
    for (const auto& [actor, its] : actors_) {
      ASSERT_FALSE(its.held && its.group == freed.group.value() && its.bundle == freed.index)
          << "an actor has some of it";
    }
    group->second.held.erase(held);
  }
  void take(const Placed& placed) {
    ASSERT_TRUE(actors_.contains(placed.actor));
    Actor& actor = actors_.at(placed.actor);
    ASSERT_FALSE(actor.held) << "placed twice";
    ASSERT_EQ(placed.allotment.amounts, actor.demand.amounts);
    ASSERT_EQ(gpus_in(placed.allotment), actor.demand.amounts.gpus());
    actor.held = Held{placed.node, placed.allotment};
    if (actor.group == 0) return check_node(actor.demand, placed.node);
    ASSERT_FALSE(nodes_.at(placed.node).closed);
    const Group& group = groups_.at(actor.group);
    ASSERT_TRUE(!actor.bundle || actor.bundle == placed.bundle);
    actor.bundle = placed.bundle;
    ASSERT_TRUE(actor.bundle && group.held.contains(*actor.bundle));
    ASSERT_EQ(group.held.at(*actor.bundle).node, placed.node);
  }
  void take(const GroupPlaced& placed) {
    ASSERT_TRUE(groups_.contains(placed.group.value()));
    Group& group = groups_.at(placed.group.value());
    for (const PlacedBundle& bundle : placed.bundles) {
      ASSERT_TRUE(group.held.emplace(bundle.index, Held{bundle.node, bundle.allotment}).second);
      ASSERT_EQ(gpus_in(bundle.allotment), group.bundles.at(bundle.index).amounts.gpus());
      check_node(group.bundles.at(bundle.index), bundle.node);
    }
    ASSERT_EQ(group.held.size(), group.bundles.size()) << "all or nothing";
    std::set<NodeId> nodes;
    for (const auto& [index, held] : group.held) nodes.insert(held.node);
    if (group.strategy == Strategy::kStrictPack) {
      ASSERT_EQ(nodes.size(), 1U);
    }
    if (group.strategy == Strategy::kStrictSpread) {
      ASSERT_EQ(nodes.size(), group.bundles.size());
    }
  }
  static std::int64_t gpus_in(const Allotment& allotment) {
    std::int64_t gpus = 0;
    for (const GpuShare& share : allotment.gpus) gpus += share.amount;
    return gpus;
  }
  void refuse(ActorId id) {
    if (!actors_.contains(id)) return;  // its group was removed
    const Actor refused = actors_.extract(id).mapped();
    if (refused.group != 0) return;
    for (const auto& [node, machine] : nodes_) {
      ASSERT_FALSE(!machine.closed && would_do(refused.demand, node, machine)) << "it could have gone to a node";
    }
  }
  static bool would_do(const Demand& demand, NodeId node, const Machine& machine) {
    return demand.amounts.fits_in(machine.total) && (!demand.only || demand.only == node) &&
           std::all_of(demand.labels.begin(), demand.labels.end(),
                       [&](const LabelRule& rule) { return rule.holds_for(machine.labels); });
  }
  void check_node(const Demand& demand, NodeId node) {
    ASSERT_TRUE(nodes_.contains(node));
    ASSERT_FALSE(nodes_.at(node).closed);
    ASSERT_TRUE(would_do(demand, node, nodes_.at(node)));
  }

  // ---- The invariants

  /// Computes what is left on each node from all effects so far.
  std::map<NodeId, ResourceLedger> ledgers() {
    std::map<NodeId, ResourceLedger> ledgers;
    for (const auto& [node, machine] : nodes_) ledgers.emplace(node, ResourceLedger{machine.total});
    const auto take = [&](const Held& held) {
      ResourceLedger& ledger = ledgers.at(held.node);
      EXPECT_TRUE(ledger.fits(held.allotment)) << "it is another's";
      ledger.take(held.allotment);
    };
    for (const auto& [id, actor] : actors_) {
      if (actor.held && actor.group == 0) take(*actor.held);
    }
    for (const auto& [id, group] : groups_) {
      for (const auto& [index, held] : group.held) take(held);
    }
    for (const auto& [id, held] : removed_) take(held);
    return ledgers;
  }
  void check() {
    ASSERT_EQ(placement_->check(), "");
    const auto left = ledgers();
    check_inside_groups();
    std::size_t waiting = 0;
    const Actor* oldest = nullptr;
    std::uint64_t oldest_number = ~std::uint64_t{0};
    for (const auto& [id, actor] : actors_) {
      if (actor.held) continue;
      ++waiting;
      if (actor.group != 0 || actor.number > oldest_number) continue;
      oldest = &actor;
      oldest_number = actor.number;
    }
    for (const auto& [id, group] : groups_) {
      if (group.held.size() == group.bundles.size()) continue;
      ++waiting;
      if (group.number < oldest_number) oldest = nullptr;
      oldest_number = std::min(oldest_number, group.number);
    }
    ASSERT_EQ(placement_->waiting(), waiting);
    if (oldest == nullptr) return;
    for (const auto& [node, ledger] : left) {
      if (nodes_.at(node).closed || !would_do(oldest->demand, node, nodes_.at(node))) continue;
      ASSERT_FALSE(ledger.fits(oldest->demand.amounts)) << oldest->demand.to_string() << " has room, and waits";
    }
  }
  void check_inside_groups() {
    std::map<std::pair<std::uint64_t, std::uint32_t>, ResourceLedger> bundles;
    for (const auto& [id, group] : groups_) {
      for (const auto& [index, held] : group.held)
        bundles.emplace(std::pair{id, index}, ResourceLedger{held.allotment});
    }
    for (const auto& [key, held] : removed_) bundles.emplace(key, ResourceLedger{held.allotment});
    for (const auto& [id, actor] : actors_) {
      if (!actor.held || actor.group == 0) continue;
      ResourceLedger& ledger = bundles.at({actor.group, *actor.bundle});
      ASSERT_TRUE(ledger.fits(actor.held->allotment)) << "it is another's";
      ledger.take(actor.held->allotment);
    }
  }
  /// Gives everything back until all actors and groups have been served.
  void end() {
    for (;;) {
      const auto holder =
          std::find_if(actors_.begin(), actors_.end(), [](const auto& entry) { return entry.second.held.has_value(); });
      if (holder != actors_.end()) {
        give_back(holder->first);
        continue;
      }
      // A group that has lost a bundle for good still holds its other bundles, so it is removed.
      const auto group =
          std::find_if(groups_.begin(), groups_.end(), [](const auto& entry) { return !entry.second.held.empty(); });
      if (group == groups_.end()) break;
      remove_group(group->first);
    }
    for (const auto& [id, actor] : actors_)
      ASSERT_NE(actor.group, 0U) << actor.demand.to_string() << " was never served";
    ASSERT_TRUE(groups_.empty() || nodes_have_gone_) << "a group was never placed";
  }

  std::optional<Fleet> fleet_;
  std::optional<Placement> placement_;
  std::map<NodeId, Machine> nodes_;
  std::map<ActorId, Actor> actors_;
  std::map<std::uint64_t, Group> groups_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, Held> removed_;  // bundles of removed groups that are still in use
  std::uint64_t last_id_ = 0;
  std::uint64_t last_number_ = 0;
  bool nodes_have_gone_ = false;
};

TEST_F(PlacementRandom, NobodyHasWhatAnotherHasGroupsAreWholeAndNobodyWaitsBesideRoom) {
  const int workloads = rounds_of_test(kWorkloads);
  for (int workload = 0; workload < workloads; ++workload) {
    SCOPED_TRACE("workload " + std::to_string(workload));
    random_.seed(seed_ + static_cast<std::uint64_t>(workload));
    run_workload();
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

}  // namespace
}  // namespace pharos::scheduler
