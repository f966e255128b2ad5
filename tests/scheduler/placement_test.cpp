#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <pharos/scheduler/placement.hpp>
#include <pharos/scheduler/task_nodes.hpp>

#include "resources_of.hpp"

namespace pharos::scheduler {
namespace {

using Texts = std::vector<std::string>;

std::string gpus_of(const Allotment& allotment) {
  std::string text;
  for (const GpuShare& share : allotment.gpus) text += " gpu " + std::to_string(share.index);
  return text;
}

std::string to_text(const PlacementEffect& effect) {
  if (const auto* const placed = std::get_if<Placed>(&effect)) {
    return "actor " + std::to_string(placed->actor.value()) + " on node " + std::to_string(placed->node.value()) +
           gpus_of(placed->allotment);
  }
  if (const auto* const nowhere = std::get_if<Unplaceable>(&effect)) {
    return "actor " + std::to_string(nowhere->actor.value()) + " nowhere";
  }
  if (const auto* const group = std::get_if<GroupPlaced>(&effect)) {
    std::string text = "group " + std::to_string(group->group.value());
    for (const PlacedBundle& bundle : group->bundles) {
      text += ", " + std::to_string(bundle.index) + " on node " + std::to_string(bundle.node.value()) +
              gpus_of(bundle.allotment);
    }
    return text;
  }
  if (const auto* const freed = std::get_if<BundleFreed>(&effect)) {
    return "freed " + std::to_string(freed->group.value()) + "." + std::to_string(freed->index) + " on node " +
           std::to_string(freed->node.value());
  }
  return "group " + std::to_string(std::get<GroupUnplaceable>(effect).group.value()) + " nowhere";
}
Texts texts(const PlacementEffects& effects) {
  Texts result;
  std::transform(effects.begin(), effects.end(), std::back_inserter(result), to_text);
  return result;
}

class PlacementTest : public testing::Test {
 protected:
  Texts add(std::uint64_t node, const std::string& total, const std::string& labels = "") {
    return texts(placement_.add_node(NodeId{node}, of(total), *parse_labels(labels)));
  }
  Texts remove(std::uint64_t node) { return texts(placement_.remove_node(NodeId{node})); }
  Texts place(std::uint64_t actor, const std::string& demand, std::uint64_t asked_at = 1) {
    return place(actor, Demand{of(demand)}, {.asked_at = NodeId{asked_at}});
  }
  Texts place(std::uint64_t actor, const Demand& demand, const Preference& preference) {
    return texts(placement_.place(ActorId{actor}, "a" + std::to_string(actor), demand, preference));
  }
  Texts give_back(std::uint64_t actor) { return texts(placement_.give_back(ActorId{actor})); }
  static Demand where(const std::string& demand, const std::string& label, const std::string& rule) {
    return {of(demand), {}, {*LabelRule::parse(label, rule)}};
  }

  Texts place_group(std::uint64_t group, Strategy strategy, const Texts& bundles) {
    GroupSpec spec{"g" + std::to_string(group), {}, strategy};
    for (const std::string& bundle : bundles) spec.bundles.push_back({of(bundle)});
    return texts(placement_.place_group(GroupId{group}, std::move(spec)));
  }
  Texts remove_group(std::uint64_t group) { return texts(placement_.remove_group(GroupId{group})); }
  Texts place_in(std::uint64_t group, std::optional<std::uint32_t> bundle, std::uint64_t actor,
                 const std::string& amounts) {
    return texts(
        placement_.place_in_group(ActorId{actor}, "a" + std::to_string(actor), of(amounts), GroupId{group}, bundle));
  }

  Fleet fleet_;
  TaskNodes tasks_{fleet_};
  Placement placement_{fleet_};
};

TEST_F(PlacementTest, NodesThatArePreferredComeInTheirOrder) {
  add(1, "cpu=2", "zone=a");
  add(2, "cpu=1", "zone=b,disk=ssd");
  add(3, "cpu=1", "zone=b");
  const auto place_preferring = [&](std::uint64_t actor, const std::string& demand) {
    const LabelRule in_zone_b = *LabelRule::parse("zone", "b");
    const Preference preference{.asked_at = NodeId{1},
                                .labels = {{in_zone_b, *LabelRule::parse("disk", "ssd")}, {in_zone_b}}};
    return texts(placement_.place(ActorId{actor}, "", Demand{of(demand)}, preference));
  };
  EXPECT_EQ(place_preferring(10, "cpu=1"), (Texts{"actor 10 on node 2"}));
  EXPECT_EQ(place_preferring(11, "cpu=1"), (Texts{"actor 11 on node 3"}));
  EXPECT_EQ(place_preferring(12, "cpu=1"), (Texts{"actor 12 on node 1"}));
  EXPECT_EQ(place_preferring(13, "cpu=1"), (Texts{"actor 13 on node 1"}));
  EXPECT_EQ(place_preferring(14, "cpu=1"), Texts{});
}

TEST_F(PlacementTest, AGpuActorGoesToTheNodeThatHasOne) {
  add(1, "cpu=8");
  add(2, "cpu=8,gpu=1");
  EXPECT_EQ(place(10, "gpu=1"), (Texts{"actor 10 on node 2 gpu 0"}));
}

TEST_F(PlacementTest, AShortageCountsTheNodesThatCouldHaveItAndNamesWhoHasWhatIsScarce) {
  add(1, "cpu=8");
  add(2, "cpu=8,gpu=1");
  add(3, "cpu=8,gpu=1");
  place(10, "gpu=1,cpu=1");
  place(11, "gpu=1");
  place(12, "cpu=1");
  EXPECT_EQ(place(13, "gpu=1,cpu=1"), Texts{});
  const auto shortage = placement_.shortage_of({of("gpu=1,cpu=1")});
  EXPECT_EQ(shortage.use, "2 of 2 GPUs are in use");
  EXPECT_EQ(shortage.holders, (std::vector{ActorId{10}, ActorId{11}}));
}

TEST_F(PlacementTest, WhatNoNodeHasIsRefusedWithNumbers) {
  add(1, "cpu=8,gpu=1");
  const auto effects = placement_.place(ActorId{3}, "trainer", {of("gpu=2")}, {});
  ASSERT_EQ(effects.size(), 1u);
  const Error& why = std::get<Unplaceable>(effects[0]).why;
  EXPECT_EQ(why.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(why.message(), "actor \"trainer\" asks for 2 GPUs; the node has 1 GPU");
  EXPECT_NE(why.remedy().find("PHAROS_RESOURCES"), std::string::npos);
  add(2, "cpu=8,gpu=4");
  const auto more = placement_.place(ActorId{4}, "trainer", {of("gpu=5")}, {});
  EXPECT_EQ(std::get<Unplaceable>(more[0]).why.message(),
            "actor \"trainer\" asks for 5 GPUs; the node that comes nearest has 4 GPUs");
}

TEST_F(PlacementTest, WithoutANodeEvenNothingIsTooMuch) {
  EXPECT_EQ(place(1, ""), (Texts{"actor 1 nowhere"}));
}

TEST_F(PlacementTest, NodesAreFilledToTheHalfThenTheLeastUsedFirst) {
  add(1, "cpu=4");
  add(2, "cpu=8");
  Texts on;
  for (std::uint64_t actor = 10; actor < 22; ++actor) on.push_back(place(actor, "cpu=1").front().substr(17));
  EXPECT_EQ(on, (Texts{"1", "1", "2", "2", "2", "2", "1", "2", "2", "1", "2", "2"}));
}

TEST_F(PlacementTest, ActorsThatAskForNothingCountAsWell) {
  add(1, "cpu=4");
  add(2, "cpu=8");
  std::map<std::string, int> on;
  for (std::uint64_t actor = 10; actor < 34; ++actor) ++on[place(actor, "").front().substr(9)];
  EXPECT_EQ(on, (std::map<std::string, int>{{"on node 1", 8}, {"on node 2", 16}}));
}

TEST_F(PlacementTest, ANodeThatIsNotHalfFullKeepsWhatIsAskedForThere) {
  add(1, "cpu=4");
  add(2, "cpu=4");
  EXPECT_EQ(place(1, "cpu=1", 2), (Texts{"actor 1 on node 2"}));
  EXPECT_EQ(place(2, "cpu=1", 2), (Texts{"actor 2 on node 2"}));
  EXPECT_EQ(place(3, "cpu=1", 2), (Texts{"actor 3 on node 1"}));
}

TEST_F(PlacementTest, WhatIsToBeSpreadGoesWhereTheLeastIsInUse) {
  add(1, "cpu=4");
  add(2, "cpu=8");
  Texts on;
  for (std::uint64_t actor = 1; actor <= 6; ++actor) {
    on.push_back(place(actor, {of("cpu=1")}, {.asked_at = NodeId{1}, .spread = true}).front().substr(16));
  }
  EXPECT_EQ(on, (Texts{"1", "2", "2", "1", "2", "2"}));
}

TEST_F(PlacementTest, WhoWantsNoGpuLeavesThoseNodesToOthers) {
  add(1, "cpu=2,gpu=1");
  add(2, "cpu=2");
  EXPECT_EQ(place(1, "cpu=1", 1), (Texts{"actor 1 on node 2"}));
  EXPECT_EQ(place(2, "cpu=1", 1), (Texts{"actor 2 on node 2"}));
  EXPECT_EQ(place(3, "cpu=1", 1), (Texts{"actor 3 on node 1"})) << "unless there is no room elsewhere";
}

TEST_F(PlacementTest, AnActorIsNearWhatItNeedsIfThereIsRoom) {
  add(1, "cpu=2");
  add(2, "cpu=2");
  const Preference near{.near = NodeId{2}, .asked_at = NodeId{1}};
  EXPECT_EQ(place(1, {of("cpu=2")}, near), (Texts{"actor 1 on node 2"}));
  EXPECT_EQ(place(2, {of("cpu=2")}, near), (Texts{"actor 2 on node 1"}));
}

TEST_F(PlacementTest, OneNodeAndNoOther) {
  add(1, "cpu=1");
  add(2, "cpu=1");
  const Demand there{of("cpu=1"), NodeId{2}, {}};
  EXPECT_EQ(place(1, there, {}), (Texts{"actor 1 on node 2"}));
  EXPECT_EQ(place(2, there, {}), Texts{});
  EXPECT_EQ(place(3, {of("cpu=2"), NodeId{2}, {}}, {}), (Texts{"actor 3 nowhere"}));
  EXPECT_EQ(remove(2), (Texts{"actor 2 nowhere"}));
  const auto gone = placement_.place(ActorId{4}, "x", there, {});
  EXPECT_EQ(std::get<Unplaceable>(gone[0]).why.message(),
            "actor \"x\" asks for 1 CPU on node 0000000000000002; there is no such node");
}

TEST_F(PlacementTest, LabelsSayWhichNodesWillDo) {
  add(1, "cpu=1", "zone=a");
  add(2, "cpu=1", "zone=b,disk=ssd");
  add(3, "cpu=1");
  EXPECT_EQ(place(1, where("cpu=1", "zone", "!in(a, c)"), {.near = NodeId{1}}), (Texts{"actor 1 on node 2"}));
  EXPECT_EQ(place(2, where("cpu=1", "disk", "ssd"), {}), Texts{});
  EXPECT_EQ(place(3, where("cpu=1", "disk", "!ssd"), {.asked_at = NodeId{3}}), (Texts{"actor 3 on node 3"}));
  EXPECT_EQ(give_back(1), (Texts{"actor 2 on node 2"}));
  const auto nowhere = placement_.place(ActorId{4}, "x", where("cpu=1", "zone", "in(c, d)"), {});
  EXPECT_EQ(std::get<Unplaceable>(nowhere[0]).why.message(),
            "actor \"x\" asks for 1 CPU on a node with zone in (c, d); there is no such node");
  const auto too_much = placement_.place(ActorId{5}, "x", where("cpu=2", "disk", "ssd"), {});
  EXPECT_EQ(std::get<Unplaceable>(too_much[0]).why.message(),
            "actor \"x\" asks for 2 CPUs; the node with disk=ssd that comes nearest has 1 CPU");
}

TEST_F(PlacementTest, NothingNewGoesToAClosedNode) {
  add(1, "cpu=1");
  add(2, "cpu=1");
  place(1, "cpu=1", 1);
  place(2, "cpu=1", 2);
  EXPECT_EQ(place(3, "cpu=1"), Texts{});
  EXPECT_EQ(texts(placement_.close_node(NodeId{1})), Texts{});
  EXPECT_EQ(give_back(1), Texts{});
  EXPECT_EQ(give_back(2), (Texts{"actor 3 on node 2"}));
  EXPECT_EQ(texts(placement_.close_node(NodeId{2})), Texts{});
  EXPECT_EQ(place(4, "cpu=1"), (Texts{"actor 4 nowhere"}));
}

TEST_F(PlacementTest, ActorsGoWhereTasksLeaveRoomOrElseWaitForTheTasksThere) {
  add(1, "cpu=2");
  add(2, "cpu=2");
  tasks_.note_tasks(NodeId{1}, of("cpu=2"));
  EXPECT_EQ(place(1, "cpu=2", 1), (Texts{"actor 1 on node 2"}));
  EXPECT_EQ(place(2, "cpu=2", 2), (Texts{"actor 2 on node 1"}));
}

TEST_F(PlacementTest, WhoWaitsIsPlacedWhenThereIsRoomFirstComeFirstServed) {
  add(1, "cpu=2,gpu=1");
  EXPECT_EQ(place(1, "gpu=1"), (Texts{"actor 1 on node 1 gpu 0"}));
  EXPECT_EQ(place(2, "gpu=1"), Texts{});
  EXPECT_EQ(place(3, "gpu=0.5"), Texts{});
  EXPECT_EQ(place(4, "cpu=1"), (Texts{"actor 4 on node 1"})) << "wants nothing that those before it wait for";
  EXPECT_EQ(give_back(1), (Texts{"actor 2 on node 1 gpu 0"}));
  EXPECT_EQ(give_back(2), (Texts{"actor 3 on node 1 gpu 0"}));
  EXPECT_EQ(placement_.waiting(), 0u);
}

TEST_F(PlacementTest, SmallOnesDoNotStarveALargeOne) {
  add(1, "gpu=2");
  place(1, "gpu=1");
  place(2, "gpu=1");
  EXPECT_EQ(place(3, "gpu=2"), Texts{});
  EXPECT_EQ(place(4, "gpu=1"), Texts{});
  EXPECT_EQ(give_back(1), Texts{}) << "what is free is set aside for 3";
  EXPECT_EQ(give_back(2), (Texts{"actor 3 on node 1 gpu 0 gpu 1"}));
  EXPECT_EQ(give_back(3), (Texts{"actor 4 on node 1 gpu 0"}));
}

TEST_F(PlacementTest, WhoIsGivenUpWhileItWaitsIsNeverPlaced) {
  add(1, "gpu=1");
  place(1, "gpu=1");
  place(2, "gpu=1");
  EXPECT_EQ(give_back(2), Texts{});
  EXPECT_EQ(give_back(1), Texts{});
  EXPECT_EQ(place(3, "gpu=1"), (Texts{"actor 3 on node 1 gpu 0"}));
}

TEST_F(PlacementTest, ALostNodeFreesNothingAndWhoCouldOnlyGoThereIsTold) {
  add(1, "cpu=1");
  add(2, "gpu=1");
  place(1, "gpu=1");
  EXPECT_EQ(place(2, "gpu=1"), Texts{});
  EXPECT_EQ(remove(2), (Texts{"actor 2 nowhere"}));
  EXPECT_EQ(give_back(1), Texts{}) << "it went with the node";
  add(2, "gpu=1");
  EXPECT_EQ(place(3, "gpu=1"), (Texts{"actor 3 on node 2 gpu 0"}));
}

TEST_F(PlacementTest, ANewNodeServesThoseWhoWait) {
  add(1, "cpu=1");
  place(1, "cpu=1");
  EXPECT_EQ(place(2, "cpu=1"), Texts{});
  EXPECT_EQ(add(2, "cpu=1"), (Texts{"actor 2 on node 2"}));
}

TEST_F(PlacementTest, TasksGoWhereTheirShapeCouldFit) {
  add(1, "cpu=1");
  add(2, "cpu=1,gpu=1");
  EXPECT_EQ(tasks_.find_node({of("gpu=1")}, {}, "a task")->value(), 2u);
  EXPECT_EQ(tasks_.find_node({of("gpu=2")}, {}, "a task").error().message(),
            "a task asks for 2 GPUs; the node that comes nearest has 1 GPU");
}

TEST_F(PlacementTest, ATaskThatWaitsElsewhereHasRoomBesideTasksOnly) {
  const scheduler::Demand demand{of("cpu=1")};
  add(1, "cpu=1");
  EXPECT_EQ(tasks_.take_room(demand, {}, NodeId{1}), std::nullopt) << "it waits there";
  add(2, "cpu=2");
  add(3, "cpu=1,gpu=1");
  place(1, "cpu=1", 2);
  EXPECT_EQ(tasks_.take_room(demand, {}, NodeId{1}), NodeId{2});
  EXPECT_EQ(tasks_.take_room(demand, {}, NodeId{1}), NodeId{3}) << "what was taken counts";
  EXPECT_EQ(tasks_.take_room(demand, {}, NodeId{1}), std::nullopt);
  tasks_.note_tasks(NodeId{2}, {});
  tasks_.note_tasks(NodeId{3}, {});
  EXPECT_EQ(tasks_.take_room(demand, NodeId{3}, NodeId{1}), NodeId{3});
  EXPECT_EQ(tasks_.take_room(demand, NodeId{3}, NodeId{1}), NodeId{2}) << "the near one is full";
  tasks_.note_tasks(NodeId{3}, {});
  EXPECT_EQ(tasks_.take_room({of("gpu=1")}, {}, NodeId{1}), NodeId{3});
}

TEST_F(PlacementTest, ActorsThatHoldNothingTakeNoRoomFromTasks) {
  for (std::uint64_t node = 1; node <= 4; ++node) add(node, "cpu=2");
  for (std::uint64_t actor = 10; actor < 50; ++actor) ASSERT_EQ(place(actor, "").size(), 1u);
  std::map<std::uint64_t, int> on;
  for (int task = 0; task < 6; ++task) {  // the asking node has room for two more tasks itself
    const auto node = tasks_.take_room({of("cpu=1")}, {}, NodeId{1});
    ASSERT_TRUE(node) << "for task " << task;
    ++on[node->value()];
  }
  EXPECT_EQ(on, (std::map<std::uint64_t, int>{{2, 2}, {3, 2}, {4, 2}}));
  EXPECT_EQ(tasks_.take_room({of("cpu=1")}, {}, NodeId{1}), std::nullopt);
}

TEST_F(PlacementTest, ANodeFullOfActorsThatHoldNothingKeepsActorsWithCpusThatAreAskedForThere) {
  add(1, "cpu=4");
  add(2, "cpu=4");
  for (std::uint64_t actor = 10; actor < 30; ++actor) place(actor, "");
  EXPECT_EQ(place(1, "cpu=1", 2), (Texts{"actor 1 on node 2"}));
  EXPECT_EQ(place(2, "cpu=1", 2), (Texts{"actor 2 on node 2"}));
  EXPECT_EQ(place(3, "cpu=1", 2), (Texts{"actor 3 on node 1"}));
}

TEST_F(PlacementTest, OfTwoNodesThatAreUsedAsMuchTheOneWithFewerActorsComesFirst) {
  add(1, "cpu=4");
  add(2, "cpu=4");
  const Preference spread{.asked_at = NodeId{1}, .spread = true};
  EXPECT_EQ(place(1, Demand{}, spread), (Texts{"actor 1 on node 1"}));
  EXPECT_EQ(place(2, {of("cpu=1")}, spread), (Texts{"actor 2 on node 2"}));
  EXPECT_EQ(place(3, {of("cpu=1")}, spread), (Texts{"actor 3 on node 1"}));
}

// ---- Groups

TEST_F(PlacementTest, AGroupIsPlacedAllAtOnceOrNotAtAll) {
  add(1, "cpu=2");
  add(2, "cpu=2");
  place(1, "cpu=1", 1);
  EXPECT_EQ(place_group(1, Strategy::kPack, {"cpu=2", "cpu=2"}), Texts{});
  EXPECT_EQ(place(2, "cpu=1", 2), Texts{}) << "what is free is set aside";
  EXPECT_EQ(give_back(1), (Texts{"group 1, 1 on node 1, 0 on node 2"}));
  EXPECT_EQ(remove_group(1), (Texts{"freed 1.0 on node 2", "freed 1.1 on node 1", "actor 2 on node 1"}));
}

TEST_F(PlacementTest, StrategiesSayHowBundlesLieToEachOther) {
  for (const std::uint64_t node : {1, 2, 3}) add(node, "cpu=4");
  EXPECT_EQ(place_group(1, Strategy::kPack, {"cpu=1", "cpu=1", "cpu=3"}),
            (Texts{"group 1, 0 on node 1, 1 on node 2, 2 on node 1"}));
  remove_group(1);
  EXPECT_EQ(place_group(2, Strategy::kStrictPack, {"cpu=1", "cpu=2"}), (Texts{"group 2, 0 on node 1, 1 on node 1"}));
  remove_group(2);
  EXPECT_EQ(place_group(3, Strategy::kSpread, {"cpu=1", "cpu=1", "cpu=1", "cpu=1"}),
            (Texts{"group 3, 0 on node 1, 1 on node 2, 2 on node 3, 3 on node 1"}));
  remove_group(3);
  EXPECT_EQ(place_group(4, Strategy::kStrictSpread, {"cpu=1", "cpu=4"}), (Texts{"group 4, 0 on node 2, 1 on node 1"}));
  EXPECT_EQ(place_group(5, Strategy::kStrictSpread, {"cpu=1", "cpu=1", "cpu=1", "cpu=1"}), (Texts{"group 5 nowhere"}));
  EXPECT_EQ(place_group(6, Strategy::kStrictPack, {"cpu=3", "cpu=3"}), (Texts{"group 6 nowhere"}));
}

TEST_F(PlacementTest, AStrictSpreadIsFoundWhereThereIsOne) {
  add(1, "cpu=4,gpu=1");
  add(2, "cpu=4");
  add(3, "cpu=2,fast=1");
  // Only the first node has the GPU, and only the last one has "fast". Each of them would do for other bundles too.
  EXPECT_EQ(place_group(1, Strategy::kStrictSpread, {"cpu=2", "cpu=1,fast=1", "gpu=1"}),
            (Texts{"group 1, 0 on node 2, 1 on node 3, 2 on node 1 gpu 0"}));
}

TEST_F(PlacementTest, AStrictPackOfGpuSharesIsFoundWhereThereIsOne) {
  add(1, "gpu=2");
  // The largest shares must not go to one GPU: 0.2 of it would then be of no use to any other share.
  const Texts shares{"gpu=0.4", "gpu=0.4", "gpu=0.3", "gpu=0.3", "gpu=0.3", "gpu=0.3"};
  const Texts placed{
      "group 1, 0 on node 1 gpu 0, 1 on node 1 gpu 1, 2 on node 1 gpu 0, 3 on node 1 gpu 0, 4 on node 1 gpu 1, 5 on "
      "node 1 gpu 1"};
  EXPECT_EQ(place_group(1, Strategy::kStrictPack, shares), placed);
  remove_group(1);
  place(10, "gpu=2");
  EXPECT_EQ(place_group(1, Strategy::kStrictPack, shares), Texts{});
  EXPECT_EQ(give_back(10), placed);
  EXPECT_EQ(placement_.check(), "");
}

TEST_F(PlacementTest, EachBundleHasItsShareOfAGpuInWhicheverOrderTheyAreAskedFor) {
  add(1, "gpu=2");
  // In this order, the last bundle would find no GPU with half of it left.
  const Texts shares{"gpu=0.3", "gpu=0.5", "gpu=0.7", "gpu=0.5"};
  const Texts placed{"group 1, 0 on node 1 gpu 0, 1 on node 1 gpu 1, 2 on node 1 gpu 0, 3 on node 1 gpu 1"};
  EXPECT_EQ(place_group(1, Strategy::kPack, shares), placed);
  remove_group(1);
  place(10, "gpu=2");
  EXPECT_EQ(place_group(1, Strategy::kPack, shares), Texts{});
  EXPECT_EQ(give_back(10), placed);
  EXPECT_EQ(place_in(1, 3, 11, "gpu=0.5"), (Texts{"actor 11 on node 1 gpu 1"}));
}

TEST_F(PlacementTest, AGroupThatNeverFitsIsToldWithNumbers) {
  add(1, "cpu=4,gpu=1");
  add(2, "cpu=4,gpu=1");
  const auto why = [&](Strategy strategy, const Texts& bundles) {
    GroupSpec spec{"trainers", {}, strategy};
    for (const std::string& bundle : bundles) spec.bundles.push_back({of(bundle)});
    return std::get<GroupUnplaceable>(placement_.place_group(GroupId{1}, std::move(spec)).at(0)).why.message();
  };
  EXPECT_EQ(why(Strategy::kPack, {"gpu=2"}),
            "group \"trainers\" asks for 2 GPUs; the node that comes nearest has 1 GPU");
  EXPECT_EQ(
      why(Strategy::kStrictPack, {"gpu=1", "gpu=1"}),
      "group \"trainers\" asks for 2 bundles, together 2 GPUs, on one node, and no node has that much; there are 2 "
      "nodes with 8 CPUs, 2 GPUs");
  EXPECT_EQ(placement_.waiting(), 0U);
}

TEST_F(PlacementTest, APatientGroupThatNeverFitsWaitsForANodeAndSoDoItsActorsUntilItIsRefused) {
  add(1, "cpu=4");
  const auto patient = [&](std::uint64_t group, const std::string& bundle) {
    return texts(placement_.place_group(GroupId{group}, {"g", {{of(bundle)}}, Strategy::kPack}, true));
  };
  EXPECT_EQ(patient(1, "cpu=6"), Texts{});
  EXPECT_EQ(patient(2, "cpu=20"), Texts{});
  EXPECT_EQ(place_in(1, 0, 11, "cpu=1"), Texts{});
  EXPECT_EQ(place_in(2, 0, 12, "cpu=1"), Texts{});
  EXPECT_EQ(add(2, "cpu=8"), (Texts{"group 1, 0 on node 2", "actor 11 on node 2"}));
  EXPECT_EQ(texts(placement_.refuse_hopeless(GroupId{1})), Texts{});
  EXPECT_EQ(texts(placement_.refuse_hopeless(GroupId{2})), (Texts{"actor 12 nowhere", "group 2 nowhere"}));
  EXPECT_EQ(texts(placement_.refuse_hopeless(GroupId{2})), Texts{});
  EXPECT_EQ(placement_.waiting(), 0U);
}

TEST_F(PlacementTest, AGroupGoesElsewhereThanPlannedIfThereIsRoomSooner) {
  add(1, "cpu=2");
  add(2, "cpu=2");
  place(1, "cpu=2", 1);
  place(2, "cpu=2", 2);
  EXPECT_EQ(place_group(1, Strategy::kStrictPack, {"cpu=1", "cpu=1"}), Texts{}) << "planned for node 1";
  EXPECT_EQ(give_back(2), (Texts{"group 1, 0 on node 2, 1 on node 2"}));
  EXPECT_EQ(give_back(1), Texts{});
  EXPECT_EQ(place(3, "cpu=2"), (Texts{"actor 3 on node 1"})) << "nothing is set aside any more";
}

TEST_F(PlacementTest, ActorsHaveWhatTheirBundleHas) {
  add(1, "cpu=4,gpu=4");
  place(1, "gpu=1");
  EXPECT_EQ(place_group(1, Strategy::kPack, {"gpu=2", "cpu=1"}),
            (Texts{"group 1, 0 on node 1 gpu 1 gpu 2, 1 on node 1"}));
  EXPECT_EQ(place_in(1, 0, 10, "gpu=1"), (Texts{"actor 10 on node 1 gpu 1"}));
  EXPECT_EQ(place_in(1, std::nullopt, 11, "gpu=0.5"), (Texts{"actor 11 on node 1 gpu 2"}));
  EXPECT_EQ(place_in(1, std::nullopt, 12, "cpu=1"), (Texts{"actor 12 on node 1"}));
  EXPECT_EQ(place_in(1, 1, 13, "cpu=1"), Texts{});
  EXPECT_EQ(give_back(12), (Texts{"actor 13 on node 1"}));
  EXPECT_EQ(place_in(1, 1, 14, "cpu=2"), (Texts{"actor 14 nowhere"}));
  EXPECT_EQ(place_in(1, 2, 15, "cpu=1"), (Texts{"actor 15 nowhere"}));
  EXPECT_EQ(place_in(9, 0, 16, "cpu=1"), (Texts{"actor 16 nowhere"}));
}

TEST_F(PlacementTest, WhatARemovedGroupHadIsFreeWhenItsActorsAreGone) {
  add(1, "gpu=2");
  place_group(1, Strategy::kPack, {"gpu=1", "gpu=1"});
  place_in(1, 0, 10, "gpu=1");
  EXPECT_EQ(place_in(1, 0, 11, "gpu=1"), Texts{});
  EXPECT_EQ(place(20, "gpu=2"), Texts{});
  EXPECT_EQ(remove_group(1), (Texts{"actor 11 nowhere", "freed 1.1 on node 1"}));
  EXPECT_EQ(give_back(10), (Texts{"freed 1.0 on node 1", "actor 20 on node 1 gpu 0 gpu 1"}));
}

TEST_F(PlacementTest, BundlesOfALostNodeArePlacedAgainAndSoAreTheirActors) {
  for (const std::uint64_t node : {1, 2, 3}) add(node, "cpu=2");
  EXPECT_EQ(place_group(1, Strategy::kStrictSpread, {"cpu=2", "cpu=2"}), (Texts{"group 1, 0 on node 1, 1 on node 2"}));
  EXPECT_EQ(place_in(1, 1, 10, "cpu=1"), (Texts{"actor 10 on node 2"}));
  EXPECT_EQ(remove(2), (Texts{"group 1, 1 on node 3"}));
  EXPECT_EQ(place_in(1, 1, 10, "cpu=1"), (Texts{"actor 10 on node 3"})) << "its restart";
  EXPECT_EQ(remove(3), Texts{}) << "there is no other";
  EXPECT_EQ(place_in(1, 1, 10, "cpu=1"), Texts{});
  EXPECT_EQ(placement_.waiting(), 2U);
  EXPECT_EQ(add(4, "cpu=1"), Texts{});
  EXPECT_EQ(add(5, "cpu=2"), (Texts{"group 1, 1 on node 5", "actor 10 on node 5"}));
}

TEST_F(PlacementTest, ABundleOfAStrictPackThatHasLostItsPlaceGoesWhereTheOthersAre) {
  add(1, "cpu=2");
  add(2, "cpu=4");
  const auto restore = [&](std::uint64_t group) {
    const GroupSpec spec{"g", {{of("cpu=1")}, {of("cpu=1")}}, Strategy::kStrictPack};
    return placement_.restore_group(GroupId{group}, spec, {{NodeId{1}, {of("cpu=1"), {}}}, {}});
  };
  ASSERT_TRUE(restore(1));
  EXPECT_EQ(texts(placement_.replace_group(GroupId{1})), (Texts{"group 1, 1 on node 1"}));
  remove_group(1);

  ASSERT_TRUE(restore(2));
  EXPECT_EQ(place(10, {of("cpu=1"), NodeId{1}, {}}, {}), (Texts{"actor 10 on node 1"}));
  EXPECT_EQ(texts(placement_.replace_group(GroupId{2})), Texts{}) << "there is room on node 2 only";
  EXPECT_EQ(give_back(10), (Texts{"group 2, 1 on node 1"}));
  EXPECT_EQ(remove(1), (Texts{"group 2, 0 on node 2, 1 on node 2"}));
}

TEST_F(PlacementTest, ActorsOfAGroupWaitUntilTheirClosedNodeIsOpenedOrGone) {
  add(1, "cpu=2");
  add(2, "cpu=2");
  EXPECT_EQ(place_group(1, Strategy::kPack, {"cpu=2"}), (Texts{"group 1, 0 on node 1"}));
  EXPECT_EQ(place_in(1, 0, 10, "cpu=1"), (Texts{"actor 10 on node 1"}));
  EXPECT_EQ(texts(placement_.close_node(NodeId{1})), Texts{});
  EXPECT_EQ(place_in(1, 0, 11, "cpu=1"), Texts{});
  EXPECT_EQ(texts(placement_.open_node(NodeId{1})), (Texts{"actor 11 on node 1"}));

  EXPECT_EQ(texts(placement_.close_node(NodeId{1})), Texts{});
  EXPECT_EQ(give_back(10), Texts{});
  EXPECT_EQ(place_in(1, 0, 10, "cpu=1"), Texts{}) << "its restart";
  EXPECT_EQ(remove(1), (Texts{"group 1, 0 on node 2", "actor 10 on node 2"}));
  EXPECT_EQ(placement_.check(), "");
}

TEST_F(PlacementTest, BundlesLeaveANodeOnceNoActorUsesThem) {
  add(1, "cpu=4");
  add(2, "cpu=4");
  EXPECT_EQ(place_group(1, Strategy::kStrictPack, {"cpu=1", "cpu=2"}), (Texts{"group 1, 0 on node 1, 1 on node 1"}));
  EXPECT_EQ(place_in(1, 0, 10, "cpu=1"), (Texts{"actor 10 on node 1"}));
  EXPECT_EQ(place_in(1, 1, 11, "cpu=2"), (Texts{"actor 11 on node 1"}));
  EXPECT_EQ(texts(placement_.close_node(NodeId{1})), Texts{});
  EXPECT_EQ(texts(placement_.vacate(NodeId{1})), Texts{});
  EXPECT_EQ(give_back(11), Texts{});
  EXPECT_EQ(place_in(1, 1, 11, "cpu=2"), Texts{}) << "its restart";
  EXPECT_EQ(texts(placement_.vacate(NodeId{1})), Texts{}) << "actor 10 is still there, and they are on one node";
  EXPECT_EQ(give_back(10), Texts{});
  EXPECT_EQ(texts(placement_.vacate(NodeId{1})), (Texts{"freed 1.0 on node 1", "freed 1.1 on node 1",
                                                        "group 1, 0 on node 2, 1 on node 2", "actor 11 on node 2"}));
  EXPECT_EQ(texts(placement_.vacate(NodeId{1})), Texts{});
  EXPECT_EQ(placement_.check(), "");
}

TEST_F(PlacementTest, TheOlderOfTwoGroupsIsServedFirstOnEachNode) {
  add(1, "cpu=1");
  add(2, "cpu=1");
  place(1, "cpu=1", 1);
  place(2, "cpu=1", 2);
  EXPECT_EQ(place_group(1, Strategy::kSpread, {"cpu=1", "cpu=1"}), Texts{});
  EXPECT_EQ(place_group(2, Strategy::kSpread, {"cpu=1", "cpu=1"}), Texts{});
  EXPECT_EQ(give_back(2), Texts{});
  EXPECT_EQ(give_back(1), (Texts{"group 1, 0 on node 1, 1 on node 2"}));
  EXPECT_EQ(remove_group(1),
            (Texts{"freed 1.0 on node 1", "freed 1.1 on node 2", "group 2, 0 on node 1, 1 on node 2"}));
}

}  // namespace
}  // namespace pharos::scheduler
