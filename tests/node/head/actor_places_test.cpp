#include "head/actors/actor_places.hpp"

#include <chrono>
#include <optional>

#include "head_actor_parts.hpp"

namespace pharos::node::head {
namespace {

using namespace std::chrono_literals;

class ActorPlacesTest : public HeadActorParts {};

TEST_F(ActorPlacesTest, TheNodeLearnsTheProgramAndThenStartsTheIncarnation) {
  maker_.start(NodeId{1}, making(50));
  EXPECT_EQ(told(2), (Names{"AddJob", "StartIncarnation"}));
  EXPECT_EQ(places_.running().find(ActorId{50})->node, NodeId{2});
}

TEST_F(ActorPlacesTest, AnIncarnationWithoutRoomWaitsAndStartsWhenTheOtherHasEnded) {
  start_alive(making(50, "cpu=4"));
  maker_.start(NodeId{1}, making(51, "cpu=4"));
  EXPECT_EQ(places_.unplaced().size(), 1u);
  told(2);
  places_.note_ended({ActorId{50}, 1, "it crashed"});
  EXPECT_EQ(last_told<wire::StartIncarnation>(2).actor, ActorId{51});
  EXPECT_TRUE(places_.unplaced().empty());
}

TEST_F(ActorPlacesTest, TheEndOfAnOlderIncarnationChangesNothing) {
  wire::StartActor start = making(50);
  start.max_restarts = 1;
  start_alive(std::move(start));
  places_.note_ended({ActorId{50}, 1, "it crashed"});
  ASSERT_NE(places_.running().find(ActorId{50}, 2), nullptr);
  places_.note_ended({ActorId{50}, 1, "it crashed"});
  EXPECT_NE(places_.running().find(ActorId{50}, 2), nullptr);
  EXPECT_EQ(places_.find_last_end(ActorId{50})->reason, "it crashed");
}

TEST_F(ActorPlacesTest, AnActorThatNoNodeCouldRunEnds) {
  maker_.start(NodeId{1}, making(50, "cpu=5"));
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(actors_.lives(ActorId{50}));
}

TEST_F(ActorPlacesTest, AnActorThatNoNodeCouldRunWaitsForANodeThatJoinsAsLongAsItMay) {
  for (const std::uint64_t actor : {50, 51}) {
    wire::StartActor start = making(actor, actor == 50 ? "cpu=5" : "cpu=9", 0);
    start.demand.wait_ms = 1000;
    maker_.start(NodeId{1}, std::move(start));
  }
  EXPECT_EQ(told(1), Names{});
  EXPECT_TRUE(actors_.lives(ActorId{50}));
  add_node(3);
  apply(placement_.add_node(NodeId{3}, *scheduler::Resources::parse("cpu=8")));
  places_.place_wanting();
  EXPECT_EQ(told(3), (Names{"AddJob", "StartIncarnation"}));
  executor_.advance(999ms);
  EXPECT_TRUE(actors_.lives(ActorId{51}));
  executor_.advance(1ms);
  EXPECT_FALSE(actors_.lives(ActorId{51}));
  const Error why = last_told<wire::Refused>(1).why;
  EXPECT_EQ(why.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(why.to_string().find("no node that could run it has joined within 1 s"), std::string::npos)
      << why.to_string();
}

TEST_F(ActorPlacesTest, AnActorThatEndsWhileItWaitsForANodeIsForgotten) {
  wire::StartActor start = making(50, "cpu=5", 0);
  start.demand.wait_ms = 1000;
  maker_.start(NodeId{1}, std::move(start));
  apply(actors_.kill(ActorId{50}, "nobody wants it"));
  places_.forget_if_over(ActorId{50});
  EXPECT_TRUE(places_.unplaced().empty());
  EXPECT_EQ(places_.find_making(ActorId{50}), nullptr);
  told(1);
  add_node(3);
  apply(placement_.add_node(NodeId{3}, *scheduler::Resources::parse("cpu=8")));
  places_.place_wanting();
  executor_.advance(2s);
  EXPECT_EQ(told(3), Names{});
  EXPECT_EQ(told(1), Names{});
}

TEST_F(ActorPlacesTest, DuringARecoveryAnActorThatNoKnownNodeCouldRunWaits) {
  recovery_.begin();
  maker_.start(NodeId{1}, making(50, "cpu=5", 3));
  EXPECT_TRUE(actors_.lives(ActorId{50}));
  add_node(3);
  apply(placement_.add_node(NodeId{3}, *scheduler::Resources::parse("cpu=8")));
  places_.place_unplaceable();
  EXPECT_EQ(told(3), (Names{"AddJob", "StartIncarnation"}));
}

TEST_F(ActorPlacesTest, AnActorThatIsOverIsForgottenAlsoWhileItWaitsForRoom) {
  start_alive(making(50, "cpu=4"));
  maker_.start(NodeId{1}, making(51, "cpu=4"));
  apply(actors_.kill(ActorId{51}, ""));
  places_.forget_if_over(ActorId{51});
  EXPECT_TRUE(places_.unplaced().empty());
  places_.forget_if_over(ActorId{51});
  EXPECT_EQ(places_.find_making(ActorId{51}), nullptr);
  places_.forget_if_over(ActorId{50});  // this one lives
  EXPECT_NE(places_.find_making(ActorId{50}), nullptr);
}

TEST_F(ActorPlacesTest, ADrainMovesWhatMayRestartStopsWhatLeavesAndEndsTheRestAtTheLimit) {
  wire::StartActor moves = making(50);
  moves.max_restarts = 1;
  start_alive(std::move(moves));
  wire::StartActor leaves = making(51);
  leaves.leaves = true;
  start_alive(std::move(leaves));
  start_alive(making(52));
  told(2);
  EXPECT_TRUE(places_.leave(NodeId{2}, false));
  EXPECT_EQ(told(2), (Names{"EndIncarnation", "EndIncarnation"}));
  EXPECT_TRUE(actors_.lives(ActorId{52}));
  EXPECT_TRUE(places_.leave(NodeId{2}, true));
  EXPECT_FALSE(actors_.lives(ActorId{52}));
  EXPECT_FALSE(places_.leave(NodeId{1}, true));
}

TEST_F(ActorPlacesTest, AnExclusiveActorOfALostNodeIsKeptBack) {
  wire::StartActor start = making(50);
  start.exclusive = true;
  start.max_restarts = 1;
  start_alive(std::move(start));
  places_.keep_back_if_exclusive(ActorId{50});
  places_.note_ended({ActorId{50}, 1, "its node was lost"});
  EXPECT_EQ(actors_.next_tick(), events_.now() + ActorPlaces::kExclusiveTime);
}

TEST_F(ActorPlacesTest, AReportEndsWhatIsOverAndStartsWhatTheNodeWasNeverTold) {
  recovery_.begin();
  recovery_.expect(NodeId{2}, "10.0.0.2", events_.now() + 10s);
  const scheduler::Resources one{demand("cpu=1").amounts};
  wire::StartActor start = making(50);
  start.detached = true;
  const wire::ActorLife life{
      .actor = ActorId{50}, .incarnation = 1, .has = {NodeId{2}, one.amounts(), {}}, .job = JobId{7}};
  ASSERT_TRUE(records_.restore(&life, &start, nullptr));
  recovery_.await_report(NodeId{2});
  wire::Report report;
  report.incarnations = {{ActorId{49}, 1, true}};
  places_.take_report(NodeId{2}, report);
  EXPECT_EQ(told(2), (Names{"EndIncarnation", "AddJob", "StartIncarnation"}));
}

TEST_F(ActorPlacesTest, RecordsThatDoNotFitEachOtherRestoreNothing) {
  const wire::StartActor start = making(50);
  const wire::ActorLife life{.actor = ActorId{50}, .incarnation = 1};
  EXPECT_FALSE(records_.restore(nullptr, &start, nullptr));
  EXPECT_FALSE(records_.restore(&life, nullptr, nullptr));
  const wire::PromiseActor promise{.actor = ActorId{50}, .asker = asker(1)};
  EXPECT_FALSE(records_.restore(&life, &start, &promise));
  EXPECT_EQ(actors_.look_at(ActorId{50}), nullptr);
  EXPECT_TRUE(records_.restore(nullptr, nullptr, &promise));
}

TEST(HeadRunningTable, IncarnationsAreFoundByActorAndByNode) {
  RunningTable table;
  table.add(ActorId{2}, {1, NodeId{9}, false});
  table.add(ActorId{1}, {4, NodeId{9}, true});
  EXPECT_EQ(table.at(NodeId{9}), (std::vector<std::pair<ActorId, std::uint32_t>>{{ActorId{1}, 4}, {ActorId{2}, 1}}));
  EXPECT_EQ(table.find(ActorId{1}, 3), nullptr);
  EXPECT_EQ(table.remove(ActorId{1}, 3), std::nullopt);
  EXPECT_TRUE(table.note_told(ActorId{1}));
  EXPECT_FALSE(table.note_told(ActorId{1}));
  EXPECT_EQ(table.remove(ActorId{1}, 4)->node, NodeId{9});
  EXPECT_EQ(table.at(NodeId{9}).size(), 1u);
}

}  // namespace
}  // namespace pharos::node::head
