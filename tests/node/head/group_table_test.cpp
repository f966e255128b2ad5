#include "head/group_table.hpp"

#include <chrono>

#include "head_parts.hpp"

namespace pharos::node::head {
namespace {

using namespace std::chrono_literals;

/// Nodes 1 and 2 with 4 CPUs each. Groups are asked for at node 1.
class HeadGroupTable : public HeadParts, protected Effects {
 protected:
  HeadGroupTable() {
    for (const std::uint64_t node : {1, 2}) {
      add_node(node);
      apply(placement_.add_node(NodeId{node}, *scheduler::Resources::parse("cpu=4")));
    }
  }
  void place(std::uint64_t group, std::size_t bundles, const std::string& amounts, std::uint64_t caller = 70,
             std::uint64_t only = 0, std::int64_t wait_ms = 0) {
    wire::PlaceGroup place{GroupId{group}, "g", Strategy::kSpread, {}, asker(group, caller)};
    place.bundles.assign(bundles, demand(amounts));
    for (wire::Demand& bundle : place.bundles) {
      bundle.only = NodeId{only};
      bundle.wait_ms = wait_ms;
    }
    groups_.place(NodeId{1}, std::move(place));
  }
  void apply(const scheduler::ActorEffects&) override { ADD_FAILURE() << "groups do not call ActorTable"; }
  void apply(const scheduler::PlacementEffects& effects) override {
    for (const auto& effect : effects) {
      if (const auto* const placed = std::get_if<scheduler::GroupPlaced>(&effect)) groups_.note_placed(*placed);
      if (const auto* const refused = std::get_if<scheduler::GroupUnplaceable>(&effect)) groups_.refuse(*refused);
      if (const auto* const freed = std::get_if<scheduler::BundleFreed>(&effect)) groups_.release(*freed);
    }
  }

  scheduler::Fleet fleet_;
  scheduler::Placement placement_{fleet_};
  GroupTable groups_{events_, placement_, recovery_, *this};
};

TEST_F(HeadGroupTable, AGroupIsReadyWhenEachNodeHasSetItsBundleAside) {
  place(5, 2, "cpu=1");
  EXPECT_EQ(told(1), Names{"HoldBundle"});
  const auto hold = last_told<wire::HoldBundle>(2);
  groups_.note_held(NodeId{2}, {GroupId{5}, hold.bundle});
  EXPECT_EQ(told(1), Names{});
  groups_.note_held(NodeId{1}, {GroupId{5}, hold.bundle});  // this bundle is not at node 1
  EXPECT_EQ(told(1), Names{});
  groups_.note_held(NodeId{1}, {GroupId{5}, 1 - hold.bundle});
  EXPECT_EQ(last_told<wire::GroupReady>(1).number, 5u);
}

TEST_F(HeadGroupTable, AGroupThatFitsNowhereIsRefusedAndForgotten) {
  place(5, 1, "cpu=5");
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(groups_.find(GroupId{5}), nullptr);
}

TEST_F(HeadGroupTable, AGroupThatFitsNowhereWaitsForNodesThatJoinAsLongAsItMay) {
  place(5, 1, "cpu=5", 70, 0, 1000);
  place(6, 1, "cpu=9", 70, 0, 1000);
  EXPECT_EQ(told(1), Names{});
  add_node(3);
  apply(placement_.add_node(NodeId{3}, *scheduler::Resources::parse("cpu=8")));
  EXPECT_EQ(told(3), Names{"HoldBundle"});
  EXPECT_NE(groups_.find(GroupId{6}), nullptr);
  executor_.advance(1s);
  const auto refused = last_told<wire::Refused>(1);
  EXPECT_EQ(refused.number, 6u);
  EXPECT_NE(refused.why.to_string().find("no node that could run it has joined within 1 s"), std::string::npos);
  EXPECT_EQ(groups_.find(GroupId{6}), nullptr);
  EXPECT_NE(groups_.find(GroupId{5}), nullptr);
}

TEST_F(HeadGroupTable, AGroupThatWaitsForANodeCanBeRemoved) {
  place(5, 1, "cpu=5", 70, 0, 1000);
  groups_.remove(NodeId{1}, {GroupId{5}, asker(0)});
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kCancelled);
  executor_.advance(2s);
  EXPECT_EQ(told(1), Names{});
}

TEST_F(HeadGroupTable, AGroupWithoutBundlesIsRefused) {
  place(5, 0, "cpu=1");
  EXPECT_EQ(last_told<wire::Refused>(1).why.message(), "group \"g\" has 0 bundles");
}

TEST_F(HeadGroupTable, TheIdOfAnotherCallersGroupIsTaken) {
  place(5, 1, "cpu=1");
  place(5, 1, "cpu=1", 71);
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kAlreadyExists);
}

TEST_F(HeadGroupTable, ARemovedGroupGivesItsBundlesBackAndRefusesWhoWaits) {
  place(5, 1, "cpu=4", 70, 1);
  place(6, 2, "cpu=4");  // waits for the place of group 5
  told(1);
  groups_.remove(NodeId{1}, {GroupId{5}, asker(0, 70, 8)});  // another job's caller
  EXPECT_EQ(told(1), Names{});
  groups_.remove(NodeId{1}, {GroupId{5}, asker(0)});
  EXPECT_EQ(told(1), (Names{"Refused", "ReleaseBundle", "HoldBundle"}));
}

TEST_F(HeadGroupTable, GroupsEndWithTheirCallerAndWithTheirJob) {
  place(5, 1, "cpu=1");
  place(6, 1, "cpu=1", 71);
  groups_.end_caller(CallerId{70});
  EXPECT_EQ(groups_.find(GroupId{5}), nullptr);
  EXPECT_NE(groups_.find(GroupId{6}), nullptr);
  groups_.end_job(JobId{7});
  EXPECT_TRUE(groups_.all().empty());
}

TEST_F(HeadGroupTable, OnlyTheGroupsOwnJobMayUseIt) {
  place(5, 1, "cpu=1");
  wire::Demand in_group = demand("cpu=1");
  EXPECT_TRUE(groups_.may_use(in_group, JobId{8}));
  in_group.group = GroupId{5};
  EXPECT_TRUE(groups_.may_use(in_group, JobId{7}));
  EXPECT_FALSE(groups_.may_use(in_group, JobId{8}));
}

TEST_F(HeadGroupTable, BundlesOfALostNodeGoElsewhere) {
  place(5, 1, "cpu=1");
  const std::uint64_t lost = groups_.find(GroupId{5})->nodes.front().value();
  const std::uint64_t other = 3 - lost;
  told(other);
  groups_.lose_node(NodeId{lost});
  apply(placement_.remove_node(NodeId{lost}));
  EXPECT_EQ(told(other), Names{"HoldBundle"});
  EXPECT_EQ(groups_.find(GroupId{5})->nodes, std::vector{NodeId{other}});
}

TEST_F(HeadGroupTable, DuringARecoveryNewGroupsArePutOff) {
  recovery_.begin();
  place(5, 1, "cpu=1");
  groups_.remove(NodeId{1}, {GroupId{9}, asker(0)});
  EXPECT_EQ(told(1), Names{});
  EXPECT_EQ(recovery_.take_put_off().size(), 2u);
}

TEST_F(HeadGroupTable, ARestoredGroupIsHeldByWhoReportsItAndIsToldToTheOthers) {
  recovery_.begin();
  wire::PlaceGroup request{GroupId{5}, "g", Strategy::kSpread, {demand("cpu=1"), demand("cpu=1")}, asker(3)};
  const scheduler::Resources one{demand("cpu=1").amounts};
  const wire::GroupPlaces places{.group = GroupId{5},
                                 .places = {{NodeId{1}, one.amounts(), {}}, {NodeId{2}, one.amounts(), {}}}};
  ASSERT_TRUE(groups_.restore(&request, &places, true));
  wire::Report report;
  report.bundles = {{GroupId{5}, 0}, {GroupId{8}, 0}};
  groups_.take_report(NodeId{1}, report);
  EXPECT_EQ(last_told<wire::ReleaseBundle>(1).group, GroupId{8});
  EXPECT_EQ(groups_.find(GroupId{5})->unheld, std::unordered_set<std::uint32_t>{1});
  groups_.take_report(NodeId{2}, {});
  EXPECT_EQ(told(2), Names{"HoldBundle"});
}

TEST_F(HeadGroupTable, AGroupThatLacksOneOfItsRecordsIsNotRestored) {
  const wire::PlaceGroup request{GroupId{5}, "g", Strategy::kSpread, {demand("cpu=1")}, asker(3)};
  EXPECT_FALSE(groups_.restore(&request, nullptr, true));
  EXPECT_EQ(groups_.find(GroupId{5}), nullptr);
}

/// The bundle that a task finds; nullopt if none has a place.
class HeadGroupSpots : public HeadGroupTable {
 protected:
  wire::Demand in_group(const std::string& amounts, std::int32_t bundle = -1) const {
    wire::Demand asked = demand(amounts);
    asked.group = GroupId{5};
    asked.bundle = bundle;
    return asked;
  }
  Result<std::optional<GroupTable::Spot>> find(const std::string& amounts, std::int32_t bundle = -1,
                                               std::optional<std::uint32_t> but_not = {}) {
    return groups_.find_spot(in_group(amounts, bundle), JobId{7}, but_not);
  }
  void hold_all() {
    for (std::uint32_t bundle = 0; bundle < 2; ++bundle) {
      groups_.note_held(groups_.find(GroupId{5})->nodes[bundle], {GroupId{5}, bundle});
    }
  }
};

TEST_F(HeadGroupSpots, ATaskFindsABundleWhenItsNodeHasSetItAside) {
  place(5, 2, "cpu=1");
  EXPECT_EQ(*find("cpu=1"), std::nullopt);
  hold_all();
  const auto first = (*find("cpu=1")).value();
  const auto second = (*find("cpu=1")).value();
  EXPECT_NE(first.bundle, second.bundle) << "they take turns";
  EXPECT_NE(first.node, second.node);
  EXPECT_EQ((*find("cpu=1", 1)).value().bundle, 1U);
  EXPECT_EQ((*find("cpu=1", 1)).value().bundle, 1U);
  EXPECT_EQ((*find("cpu=1", -1, 0)).value().bundle, 1U);
  EXPECT_EQ(*find("cpu=1", 1, 1), std::nullopt);
}

TEST_F(HeadGroupSpots, ABundleThatActorsHaveComesLast) {
  place(5, 2, "cpu=1");
  hold_all();
  apply(placement_.place_in_group(ActorId{50}, "a", *scheduler::Resources::parse("cpu=1"), GroupId{5}, 1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*find("cpu=1")).value().bundle, 0U);
  apply(placement_.place_in_group(ActorId{51}, "b", *scheduler::Resources::parse("cpu=1"), GroupId{5}, 0));
  EXPECT_NE((*find("cpu=1")).value().bundle, (*find("cpu=1")).value().bundle) << "it waits for the actors";
}

TEST_F(HeadGroupSpots, ATaskThatAsksForWhatTheGroupHasNotIsRefused) {
  place(5, 2, "cpu=1");
  const auto too_large = find("cpu=2");
  EXPECT_EQ(too_large.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(too_large.error().to_string().find("2 CPUs; no bundle of group \"g\" has more; the first has 1 CPU"),
            std::string::npos)
      << too_large.error().to_string();
  EXPECT_EQ(find("cpu=1", 2).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(groups_.find_spot(in_group("cpu=1"), JobId{8}, {}).error().code(), ErrorCode::kNotFound)
      << "it is the group of another job";
  groups_.remove(NodeId{1}, {GroupId{5}, asker(1)});
  EXPECT_EQ(find("cpu=1").error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace pharos::node::head
