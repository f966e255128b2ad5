#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <pharos/scheduler/placement.hpp>

#include "seed.hpp"

namespace pharos::scheduler {
namespace {

using Texts = std::vector<std::string>;

std::string to_text(const PlacementEffect& effect) {
  if (const auto* const placed = std::get_if<Placed>(&effect)) {
    std::string text =
        "actor " + std::to_string(placed->actor.value()) + " on node " + std::to_string(placed->node.value());
    for (const GpuShare& share : placed->allotment.gpus) text += " gpu " + std::to_string(share.index);
    return text;
  }
  return "actor " + std::to_string(std::get<Unplaceable>(effect).actor.value()) + " nowhere";
}
Texts texts(const PlacementEffects& effects) {
  Texts result;
  std::transform(effects.begin(), effects.end(), std::back_inserter(result), to_text);
  return result;
}

Resources of(const std::string& text) {
  return *Resources::parse(text);
}

class PlacementTest : public testing::Test {
 protected:
  Texts add(std::uint64_t node, const std::string& total) {
    return texts(placement_.add_node(NodeId{node}, of(total)));
  }
  Texts place(std::uint64_t actor, const std::string& demand, std::uint64_t asked_at = 1) {
    return texts(placement_.place(ActorId{actor}, "a" + std::to_string(actor), of(demand), NodeId{asked_at}));
  }
  Texts give_back(std::uint64_t actor) { return texts(placement_.give_back(ActorId{actor})); }

  Placement placement_;
};

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
  const auto shortage = placement_.shortage_of(of("gpu=1,cpu=1"));
  EXPECT_EQ(shortage.use, "2 of 2 GPUs are in use");
  EXPECT_EQ(shortage.holders, (std::vector{ActorId{10}, ActorId{11}}));
}

TEST_F(PlacementTest, WhatNoNodeHasIsRefusedWithNumbers) {
  add(1, "cpu=8,gpu=1");
  const auto effects = placement_.place(ActorId{3}, "trainer", of("gpu=2"), NodeId{1});
  ASSERT_EQ(effects.size(), 1u);
  const Error& why = std::get<Unplaceable>(effects[0]).why;
  EXPECT_EQ(why.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(why.message(), "actor \"trainer\" asks for 2 GPUs; the node has 1 GPU");
  EXPECT_NE(why.remedy().find("PHAROS_RESOURCES"), std::string::npos);
  add(2, "cpu=8,gpu=4");
  const auto more = placement_.place(ActorId{4}, "trainer", of("gpu=5"), NodeId{1});
  EXPECT_EQ(std::get<Unplaceable>(more[0]).why.message(),
            "actor \"trainer\" asks for 5 GPUs; the node that comes nearest has 4 GPUs");
}

TEST_F(PlacementTest, WithoutANodeEvenNothingIsTooMuch) {
  EXPECT_EQ(place(1, ""), (Texts{"actor 1 nowhere"}));
}

TEST_F(PlacementTest, ActorsSpreadByHowManyThereAreForEachCpu) {
  add(1, "cpu=4");
  add(2, "cpu=8");
  std::map<std::string, int> on;
  for (std::uint64_t actor = 10; actor < 22; ++actor) ++on[place(actor, "").front().substr(9)];
  EXPECT_EQ(on, (std::map<std::string, int>{{"on node 1", 4}, {"on node 2", 8}}));
  EXPECT_EQ(place(100, "", 2), (Texts{"actor 100 on node 2"})) << "of equals, where it was asked for";
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
  EXPECT_EQ(texts(placement_.remove_node(NodeId{2})), (Texts{"actor 2 nowhere"}));
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
  EXPECT_EQ(placement_.find_node(of("gpu=1"), "a task")->value(), 2u);
  EXPECT_EQ(placement_.find_node(of("gpu=2"), "a task").error().message(),
            "a task asks for 2 GPUs; the node that comes nearest has 1 GPU");
}

using PlacementRandom = SeededTest;

// Whatever happens: no node gives more than it has, and when all is given back, nobody waits.
TEST_F(PlacementRandom, NoNodeGivesMoreThanItHasAndEverybodyIsServedInTheEnd) {
  for (int round = 0; round < 100; ++round) {
    Placement placement;
    const std::uint64_t nodes = between(1, 4);
    std::map<std::uint64_t, Resources> totals;
    for (std::uint64_t node = 1; node <= nodes; ++node) {
      totals[node] = of("cpu=" + std::to_string(between(1, 4)) + ",gpu=" + std::to_string(between(0, 2)));
      placement.add_node(NodeId{node}, totals[node]);
    }
    std::map<std::uint64_t, Placed> held;
    std::size_t wanted = 0;
    const auto take = [&](const PlacementEffects& effects) {
      for (const auto& effect : effects) {
        if (const auto* const placed = std::get_if<Placed>(&effect)) {
          EXPECT_TRUE(held.emplace(placed->actor.value(), *placed).second) << "placed twice";
        } else {
          --wanted;
        }
      }
    };
    const std::vector<std::string> shapes{"", "cpu=1", "cpu=2", "gpu=0.5", "gpu=1", "gpu=2", "cpu=1,gpu=1"};
    for (std::uint64_t step = 1; step <= 100; ++step) {
      if (!held.empty() && chance(3)) {
        const std::uint64_t actor = held.begin()->first;
        held.erase(actor);
        --wanted;
        take(placement.give_back(ActorId{actor}));
      } else {
        ++wanted;
        take(placement.place(ActorId{step}, "x", of(shapes[between(0, shapes.size() - 1)]), NodeId{between(1, nodes)}));
      }
      std::map<std::uint64_t, Resources> taken;
      for (const auto& [actor, placed] : held) taken[placed.node.value()] += placed.allotment.amounts;
      for (const auto& [node, amounts] : taken) ASSERT_TRUE(amounts.fits_in(totals[node])) << amounts.to_string();
      ASSERT_EQ(placement.waiting() + held.size(), wanted);
    }
    while (!held.empty()) {
      const std::uint64_t actor = held.begin()->first;
      held.erase(actor);
      take(placement.give_back(ActorId{actor}));
    }
    ASSERT_EQ(placement.waiting(), 0u);
  }
}

}  // namespace
}  // namespace pharos::scheduler
