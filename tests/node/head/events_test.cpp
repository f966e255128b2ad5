#include "head/events.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <pharos/storage/kv_store.hpp>
#include <pharos/storage/memory_kv_store.hpp>

#include "head_parts.hpp"

namespace pharos::node::head {
namespace {

using namespace std::chrono_literals;

class HeadEvents : public HeadParts {};

TEST_F(HeadEvents, MessagesAreSentAtTheEndOfTheEventInTheirOrder) {
  add_node(1);
  events_.tell(NodeId{1}, wire::StopJob{JobId{7}});
  events_.tell(NodeId{1}, wire::EndJob{JobId{7}});
  EXPECT_TRUE(told_[1].empty());
  EXPECT_EQ(told(1), (Names{"StopJob", "EndJob"}));
}

TEST_F(HeadEvents, AMessageThatWaitsForNoWriteIsSentAtOnce) {
  add_node(1);
  events_.tell(NodeId{1}, wire::EndJob{JobId{7}});
  events_.tell_at_once(NodeId{1}, wire::Output{});
  ASSERT_EQ(told_[1].size(), 1u);
  EXPECT_EQ(told(1), (Names{"Output", "EndJob"}));
}

TEST_F(HeadEvents, WhatADisconnectedNodeWasToBeToldIsDropped) {
  add_node(1);
  events_.tell(NodeId{1}, wire::EndJob{JobId{7}});
  nodes_.remove(NodeId{1});
  EXPECT_EQ(told(1), Names{});
}

TEST_F(HeadEvents, ATimerIsAnEventOfItsOwn) {
  add_node(1);
  events_.run_later(50ms, [this] { events_.tell(NodeId{1}, wire::EndJob{JobId{7}}); });
  executor_.advance(49ms);
  EXPECT_TRUE(told_[1].empty());
  executor_.advance(1ms);
  EXPECT_EQ(told_[1].size(), 1u);
}

TEST_F(HeadEvents, TimersOfEventsThatAreGoneDoNothing) {
  bool ran = false;
  {
    Events gone{executor_, nullptr, [] {}};
    gone.run_later(50ms, [&ran] { ran = true; });
  }
  executor_.advance(1s);
  EXPECT_FALSE(ran);
}

TEST_F(HeadEvents, TheLastChangesOfAnEventAreMadeBeforeItsMessagesAreSent) {
  int completed = 0;
  int completed_when_told = 0;
  Events events{executor_, nullptr, [&completed] { ++completed; }};
  events.connect(NodeId{1}, [&](const wire::Message&) { completed_when_told = completed; });
  events.tell(NodeId{1}, wire::EndJob{JobId{7}});
  events.end();
  EXPECT_EQ(completed_when_told, 1);
}

TEST_F(HeadEvents, WithRecordsMessagesWaitUntilTheChangesAreDurable) {
  const auto store = storage::make_memory_kv_store();
  Records records{executor_, *store, [](const Error& why) { ADD_FAILURE() << why.to_string(); }};
  Events events{executor_, &records, [] {}};
  bool sent = false;
  events.connect(NodeId{1}, [&](const wire::Message&) {
    EXPECT_TRUE(records.idle());
    sent = true;
  });
  events.put("job/7", wire::AddJob{JobId{7}, {}, NodeId{1}, {}});
  events.tell(NodeId{1}, wire::EndJob{JobId{7}});
  EXPECT_FALSE(records.idle());
  EXPECT_FALSE(sent);
  events.end();
  executor_.run_until_idle();
  EXPECT_TRUE(sent);
  records.close();
  executor_.run_until_idle();
  EXPECT_TRUE(records.closed());
}

}  // namespace
}  // namespace pharos::node::head
