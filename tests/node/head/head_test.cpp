#include "head/head.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include <pharos/async/manual_executor.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

/// A head with one node of 4 CPUs, on which the driver of job 7 is.
class HeadTest : public testing::Test {
 protected:
  HeadTest() {
    head_.add_node(NodeId{1}, {.address = "10.0.0.1:1", .total = *scheduler::Resources::parse("cpu=4")},
                   [this](const wire::Message& message) { told_.emplace_back(wire::name_of(message)); });
    say(wire::AddJob{JobId{7}, {}, {}, {}});
  }
  void say(wire::Message message) { head_.on_message(NodeId{1}, std::move(message)); }
  std::vector<std::string> told() { return std::exchange(told_, {}); }
  void start_actor(std::uint64_t actor, bool detached = false) {
    wire::StartActor start{.actor = ActorId{actor}};
    start.type = "5Actor";
    start.detached = detached;
    start.asker = {JobId{7}, CallerId{70}, actor};
    say(std::move(start));
    say(wire::ActorConstructed{ActorId{actor}, 1, std::nullopt});
  }

  async::ManualExecutor executor_;
  std::vector<std::string> told_;
  Head head_{executor_};
};

TEST_F(HeadTest, TheFirstMessageToANodeIsThatItHasJoined) {
  EXPECT_EQ(told(), std::vector<std::string>{"ClusterJoined"});
}

TEST_F(HeadTest, AMessageThatIsNotForTheHeadChangesNothing) {
  told();
  say(wire::ForkWorker{});
  say(wire::ActorLife{});
  EXPECT_EQ(told(), std::vector<std::string>{});
  EXPECT_EQ(head_.check(), "");
}

TEST_F(HeadTest, NothingIsLeftWhenTheDriverHasEnded) {
  start_actor(50);
  say(wire::HoldActor{ActorId{99}, 1, {JobId{7}, CallerId{70}, 0}});  // nobody has made this actor yet
  EXPECT_NE(head_.leftovers(), "");
  say(wire::EndJob{JobId{7}});
  executor_.advance(2s);
  say(wire::IncarnationEnded{ActorId{50}, 1, "killed"});
  EXPECT_EQ(head_.leftovers(), "");
}

TEST_F(HeadTest, AJobLastsAsLongAsItsDetachedActors) {
  start_actor(50, true);
  told();
  say(wire::EndJob{JobId{7}});
  EXPECT_EQ(told(), std::vector<std::string>{});
  say(wire::KillActor{ActorId{50}, {JobId{7}, CallerId{70}, 0}});
  EXPECT_EQ(told(), (std::vector<std::string>{"EndIncarnation", "EndJob"}));
}

TEST_F(HeadTest, ACallerThatHasEndedHoldsNothing) {
  start_actor(50);
  told();
  say(wire::EndCaller{CallerId{70}});
  EXPECT_EQ(told(), std::vector<std::string>{"EndIncarnation"});
}

TEST_F(HeadTest, WhatIsOnALostNodeIsGone) {
  start_actor(50);
  head_.remove_node(NodeId{1});
  EXPECT_FALSE(head_.knows(NodeId{1}));
  EXPECT_EQ(head_.leftovers(), "");
}

}  // namespace
}  // namespace pharos::node
