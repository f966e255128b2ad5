#include "head/drains.hpp"

#include <chrono>

#include <pharos/scheduler/task_nodes.hpp>

#include "head_actor_parts.hpp"

namespace pharos::node::head {
namespace {

using namespace std::chrono_literals;

class HeadDrains : public HeadActorParts {
 protected:
  Drains drains_{events_, placement_, nodes_, recovery_, places_, *this};
};

TEST_F(HeadDrains, AnEmptyNodeIsToldToEnd) {
  drains_.begin_for(NodeId{1}, {NodeId{2}, 0, 6});
  EXPECT_EQ(last_told<wire::Rows>(1).number, 6u);
  executor_.advance(200ms);
  EXPECT_EQ(told(2), Names{"DrainNode"});
  drains_.note_empty(NodeId{2});
  EXPECT_EQ(told(2), Names{"EndNode"});
  EXPECT_TRUE(drains_.end(NodeId{2}));
  EXPECT_FALSE(drains_.end(NodeId{2}));
}

TEST_F(HeadDrains, ANodeWithTasksGoesOnUntilTheTimeLimit) {
  scheduler::TaskNodes{fleet_}.note_tasks(NodeId{2}, *scheduler::Resources::parse("cpu=1"));
  drains_.begin_for(NodeId{1}, {NodeId{2}, 1000, 6});
  executor_.advance(800ms);
  EXPECT_EQ(told(2), (Names{"DrainNode", "DrainNode", "DrainNode", "DrainNode"}));
  executor_.advance(200ms);
  EXPECT_EQ(told(2), Names{"EndNode"});
}

TEST_F(HeadDrains, ANodeThatMovesItsObjectsIsWaitedForUntilTheTimeLimit) {
  drains_.begin_for(NodeId{1}, {NodeId{2}, 600, 6});
  executor_.advance(400ms);
  EXPECT_EQ(told(2), (Names{"DrainNode", "DrainNode"}));
  executor_.advance(200ms);
  EXPECT_EQ(told(2), Names{"EndNode"});
}

TEST_F(HeadDrains, ANodeWithTasksIsNotEmptyWhateverItSays) {
  scheduler::TaskNodes{fleet_}.note_tasks(NodeId{2}, *scheduler::Resources::parse("cpu=1"));
  drains_.note_empty(NodeId{2});
  EXPECT_EQ(told(2), Names{}) << "it does not drain";
  drains_.begin_for(NodeId{1}, {NodeId{2}, 0, 6});
  drains_.note_empty(NodeId{2});
  EXPECT_EQ(told(2), Names{});
  scheduler::TaskNodes{fleet_}.note_tasks(NodeId{2}, {});
  drains_.note_empty(NodeId{2});
  EXPECT_EQ(told(2), Names{"EndNode"});
}

TEST_F(HeadDrains, NothingNewIsPlacedOnADrainingNode) {
  drains_.begin_for(NodeId{1}, {NodeId{2}, 0, 6});
  maker_.start(NodeId{1}, making(50, "cpu=1", 2));
  EXPECT_FALSE(actors_.lives(ActorId{50}));
}

TEST_F(HeadDrains, AnActorLeavesBeforeItsNodeEnds) {
  start_alive(making(50));
  told(2);
  drains_.begin_for(NodeId{1}, {NodeId{2}, 1000, 6});
  executor_.advance(200ms);
  EXPECT_EQ(told(2), Names{"DrainNode"});
  executor_.advance(800ms);
  EXPECT_EQ(told(2), (Names{"DrainNode", "DrainNode", "DrainNode", "EndIncarnation"}));
  drains_.note_empty(NodeId{2});
  EXPECT_EQ(told(2), Names{}) << "the actor is still there";
  places_.note_ended({ActorId{50}, 1, "it was killed"});
  executor_.advance(200ms);
  EXPECT_EQ(told(2), Names{"EndNode"});
}

TEST_F(HeadDrains, UnknownNodesAndTheHeadsOwnAreRefused) {
  drains_.begin_for(NodeId{1}, {NodeId{9}, 0, 6});
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kNotFound);
  nodes_.add(NodeId{3}, "", [](const wire::Message&) {});
  apply(placement_.add_node(NodeId{3}, *scheduler::Resources::parse("cpu=4")));
  drains_.begin_for(NodeId{1}, {NodeId{3}, 0, 7});
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kFailedPrecondition);
}

TEST_F(HeadDrains, ARestoredDrainWaitsForTheNodeToReport) {
  recovery_.expect(NodeId{3}, "10.0.0.3", events_.now() + 10s);
  EXPECT_FALSE(drains_.restore({NodeId{9}, 0, 6}));
  EXPECT_TRUE(drains_.restore({NodeId{3}, 0, 6}));
  recovery_.await_report(NodeId{3});
  add_node(3);
  executor_.advance(1s);
  EXPECT_EQ(told(3), Names{});
  EXPECT_TRUE(recovery_.add_report(NodeId{3}, {}));
  executor_.advance(200ms);
  EXPECT_EQ(told(3), Names{"DrainNode"});
}

}  // namespace
}  // namespace pharos::node::head
