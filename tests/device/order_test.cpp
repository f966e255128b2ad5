#include "order.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pharos::simulated {
namespace {

using Reports = std::vector<std::string>;

class OrderCheckerTest : public testing::Test {
 protected:
  /// A piece of work of the queue that uses the bytes [from, to).
  void use(QueueNumber queue, bool writes, std::size_t from = 0, std::size_t to = 8) {
    checker_.note(checker_.begin(queue), log_, from, to, writes, writes ? "writer" : "reader");
  }
  void read(QueueNumber queue) { use(queue, false); }
  void write(QueueNumber queue) { use(queue, true); }

  OrderChecker checker_;
  const QueueNumber a_ = checker_.add_queue();
  const QueueNumber b_ = checker_.add_queue();
  const QueueNumber c_ = checker_.add_queue();
  AccessLog log_;
};

TEST_F(OrderCheckerTest, TwoQueuesThatNothingOrdersAreReported) {
  write(a_);
  read(b_);
  EXPECT_EQ(checker_.take_reports(),
            Reports{"reader reads what writer writes on another stream, and nothing orders the two"});
  EXPECT_EQ(checker_.take_reports(), Reports{});
}

TEST_F(OrderCheckerTest, ReadersNeedNoOrder) {
  read(a_);
  read(b_);
  EXPECT_EQ(checker_.take_reports(), Reports{});
  write(c_);
  EXPECT_EQ(checker_.take_reports().size(), 2U);
}

TEST_F(OrderCheckerTest, OtherBytesNeedNoOrder) {
  use(a_, true, 0, 4);
  use(b_, true, 4, 8);
  EXPECT_EQ(checker_.take_reports(), Reports{});
  use(c_, true, 3, 5);
  EXPECT_EQ(checker_.take_reports().size(), 2U);
}

TEST_F(OrderCheckerTest, AnEventOrdersWhatCameBeforeItAlone) {
  write(a_);
  const Clock event = checker_.now(a_);
  checker_.wait(b_, event);
  read(b_);
  EXPECT_EQ(checker_.take_reports(), Reports{});
  write(a_);  // after the event: b may still read
  EXPECT_EQ(checker_.take_reports().size(), 1U);
}

TEST_F(OrderCheckerTest, OrderGoesOnThroughAThirdQueue) {
  write(a_);
  checker_.wait(b_, checker_.now(a_));
  checker_.wait(c_, checker_.now(b_));
  write(c_);
  EXPECT_EQ(checker_.take_reports(), Reports{});
}

TEST_F(OrderCheckerTest, WhatTheHostHasWaitedForComesBeforeAllThatItQueuesLater) {
  write(a_);
  checker_.host_waited(checker_.now(a_));
  write(b_);
  EXPECT_EQ(checker_.take_reports(), Reports{});
}

TEST_F(OrderCheckerTest, MemoryIsFreedAfterTheUsersThatAreNamed) {
  write(a_);
  checker_.wait(b_, checker_.now(a_));
  read(b_);
  checker_.note_free(a_, {b_}, log_, 8);
  EXPECT_EQ(checker_.take_reports(), Reports{});
  write(a_);
  checker_.wait(c_, checker_.now(a_));
  read(c_);
  checker_.note_free(a_, {}, log_, 8);
  EXPECT_EQ(checker_.take_reports().size(), 1U);
}

TEST_F(OrderCheckerTest, FreedMemoryMayBeUsedAgainOnItsOwnQueueAlone) {
  write(a_);
  checker_.note_free(a_, {}, log_, 8);
  write(a_);
  EXPECT_EQ(checker_.take_reports(), Reports{});
  write(b_);
  EXPECT_EQ(checker_.take_reports().size(), 1U);
}

}  // namespace
}  // namespace pharos::simulated
