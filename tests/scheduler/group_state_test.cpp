#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <pharos/scheduler/group_state.hpp>

#include "resources_of.hpp"

namespace pharos::scheduler {
namespace {

using Indexes = std::vector<std::uint32_t>;

/// A group of two bundles with 2 CPUs each. Nodes 1 and 2 have 2 CPUs each.
class GroupStateTest : public testing::Test {
 protected:
  GroupStateTest() {
    for (const std::uint64_t node : {1, 2}) fleet_.add(NodeId{node}, of("cpu=2"), {});
  }
  void put(std::uint32_t bundle, std::uint64_t node) {
    GroupState::Bundle& placed = group_.bundles[bundle];
    placed.node = NodeId{node};
    placed.allotment = fleet_.take(*fleet_.find(NodeId{node}), placed.demand.amounts);
    placed.ledger.emplace(placed.allotment);
  }
  void wait(std::uint64_t actor, const std::string& amounts, std::optional<std::uint32_t> bundle = std::nullopt) {
    group_.line.push_back({ActorId{actor}, "a", of(amounts), bundle});
  }
  /// Serves the line, and returns the actors that got room with their bundles.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> serve() {
    std::vector<std::pair<std::uint64_t, std::uint32_t>> served;
    for (const auto& each : group_.serve(fleet_)) served.emplace_back(each.actor.value(), each.bundle);
    return served;
  }

  Fleet fleet_;
  GroupState group_{GroupId{5}, {"g", {Demand{of("cpu=2")}, Demand{of("cpu=2")}}, Strategy::kPack}, 1};
};

using Served = std::vector<std::pair<std::uint64_t, std::uint32_t>>;

TEST_F(GroupStateTest, BundlesWithoutAPlaceAreMissing) {
  EXPECT_EQ(group_.missing(), (Indexes{0, 1}));
  put(1, 2);
  EXPECT_EQ(group_.missing(), Indexes{0});
  EXPECT_TRUE(group_.lose_node(NodeId{2}));
  EXPECT_FALSE(group_.lose_node(NodeId{2}));
  EXPECT_EQ(group_.missing(), (Indexes{0, 1}));
  EXPECT_EQ(group_.bundles[1].demand.amounts, of("cpu=2"));
}

TEST_F(GroupStateTest, PlacesAreFoundInWhatIsFreeOrAsIfNothingWereTaken) {
  fleet_.take(*fleet_.find(NodeId{1}), of("cpu=1"));
  EXPECT_TRUE(group_.find_places(fleet_, {0, 1}, Fleet::kAllClaims).empty());
  EXPECT_EQ(group_.find_places(fleet_, {0, 1}, std::nullopt).size(), 2u);
}

TEST_F(GroupStateTest, AnActorWaitsUntilItsBundleHasAPlace) {
  wait(10, "cpu=1", 1);
  put(0, 1);
  EXPECT_EQ(serve(), Served{});
  put(1, 2);
  EXPECT_EQ(serve(), (Served{{10, 1}}));
  EXPECT_EQ(group_.bundles[1].users, 1u);
}

TEST_F(GroupStateTest, WhoComesLaterDoesNotTakeTheRoomOfWhoWaits) {
  put(0, 1);
  wait(10, "cpu=1", 0);
  wait(11, "cpu=2", 0);
  wait(12, "cpu=1", 0);
  EXPECT_EQ(serve(), (Served{{10, 0}}));
  EXPECT_EQ(group_.line.size(), 2u);
}

TEST_F(GroupStateTest, AnActorOfNoCertainBundleGetsTheFirstThatHasRoom) {
  put(0, 1);
  put(1, 2);
  wait(10, "cpu=2");
  wait(11, "cpu=1");
  EXPECT_EQ(serve(), (Served{{10, 0}, {11, 1}}));
}

TEST_F(GroupStateTest, NobodyGetsRoomOnAClosedNode) {
  put(0, 1);
  put(1, 2);
  fleet_.close(*fleet_.find(NodeId{1}));
  wait(10, "cpu=2", 0);
  wait(11, "cpu=2");
  wait(12, "cpu=1");
  EXPECT_EQ(serve(), (Served{{11, 1}})) << "the other bundle is on an open node";
  fleet_.open(*fleet_.find(NodeId{1}));
  EXPECT_EQ(serve(), (Served{{10, 0}}));
}

TEST_F(GroupStateTest, TheErrorForTooMuchNamesTheGroupAndWhatThereIs) {
  GroupState large{GroupId{6}, {"big", {Demand{of("cpu=2")}, Demand{of("cpu=2")}, Demand{of("cpu=2")}}}, 2};
  EXPECT_EQ(
      large.too_much(fleet_).message(),
      "group \"big\" asks for 3 bundles, together 6 CPUs, which do not fit on the nodes; there are 2 nodes with 4 "
      "CPUs");
}

}  // namespace
}  // namespace pharos::scheduler
