#include "store/pull_queue.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace pharos::node {
namespace {

using Urgency = PullQueue::Urgency;

class PullQueueTest : public testing::Test {
 protected:
  static constexpr NodeId kFar{2};
  static constexpr NodeId kOther{3};

  static object_store::Place place(std::uint32_t number) { return {number, 0}; }

  /// Objects are known by a number, which is their slot here, too.
  void add(std::uint32_t number, Urgency urgency, NodeId origin = kFar) {
    const ObjectId id{CallerId{1}, number};
    queue_.add(
        {id,
         origin,
         {.location = {.id = id, .place = place(number), .node = NodeId{1}}, .offset = 0, .size = 1, .slot_bytes = 1},
         {}},
        urgency);
  }
  /// Begins all pulls that may begin, and returns their numbers.
  std::vector<std::uint64_t> begin() {
    std::vector<std::uint64_t> begun;
    while (const auto pull = queue_.next()) begun.push_back(pull->id.number);
    return begun;
  }

  PullQueue queue_;
};

using Numbers = std::vector<std::uint64_t>;

TEST_F(PullQueueTest, FourOfThoseThatCallersWaitForAreUnderWayAtOnceInTheirOrder) {
  for (std::uint32_t i = 1; i <= 6; ++i) add(i, Urgency::kWaitedFor);
  EXPECT_EQ(begin(), (Numbers{1, 2, 3, 4}));
  queue_.end();
  EXPECT_EQ(begin(), (Numbers{5}));
  queue_.end();
  queue_.end();
  EXPECT_EQ(begin(), (Numbers{6}));
}

TEST_F(PullQueueTest, ThoseThatMayBeNeededSoonLeaveRoomForTheOthers) {
  for (std::uint32_t i = 1; i <= 3; ++i) add(i, Urgency::kAhead);
  EXPECT_EQ(begin(), (Numbers{1, 2}));
  add(4, Urgency::kWaitedFor);
  add(5, Urgency::kWaitedFor);
  add(6, Urgency::kWaitedFor);
  EXPECT_EQ(begin(), (Numbers{4, 5}));
  queue_.end();
  EXPECT_EQ(begin(), (Numbers{6}));  // three are under way and a fourth begins, but none ahead
  queue_.end();
  queue_.end();
  EXPECT_EQ(begin(), (Numbers{}));
  queue_.end();
  EXPECT_EQ(begin(), (Numbers{3}));
}

TEST_F(PullQueueTest, WhatACallerWaitsForNowGoesBeforeTheOthersThatAreAhead) {
  for (std::uint32_t i = 1; i <= 4; ++i) add(i, Urgency::kAhead);
  EXPECT_EQ(begin(), (Numbers{1, 2}));
  EXPECT_TRUE(queue_.hurry(place(4)));
  EXPECT_EQ(begin(), (Numbers{4}));
  EXPECT_FALSE(queue_.hurry(place(4)));  // it has begun
  EXPECT_FALSE(queue_.hurry(place(9)));  // there is no such pull
}

TEST_F(PullQueueTest, ANodeThatDoesNotAnswerHoldsUpNoPullsFromOthers) {
  for (std::uint32_t i = 1; i <= 6; ++i) add(i, Urgency::kWaitedFor);
  EXPECT_EQ(begin(), (Numbers{1, 2, 3, 4}));
  add(7, Urgency::kWaitedFor, kOther);
  add(8, Urgency::kWaitedFor, kOther);
  EXPECT_EQ(begin(), (Numbers{}));
  std::optional<PullQueue::Aside> first{std::in_place, queue_, kFar};
  EXPECT_EQ(begin(), (Numbers{7}));  // 5 and 6 would wait for the same node
  std::optional<PullQueue::Aside> second{std::in_place, queue_, kFar};
  EXPECT_EQ(begin(), (Numbers{8}));
  first.reset();
  queue_.end();
  EXPECT_EQ(begin(), (Numbers{}));  // the second one is still aside
  second.reset();
  queue_.end();
  EXPECT_EQ(begin(), (Numbers{}));  // it counts again, so four are under way
  queue_.end();
  EXPECT_EQ(begin(), (Numbers{5}));
}

TEST_F(PullQueueTest, PullsThatHaveNotBegunAreDroppedWithTheQueueAndTheirCallersAreNotCalled) {
  const auto shared = std::make_shared<bool>(false);
  std::weak_ptr<bool> kept = shared;
  {
    PullQueue queue;
    const ObjectId id{CallerId{1}, 1};
    queue.add({id,
               kFar,
               {.location = {.id = id, .place = place(1), .node = NodeId{1}}, .offset = 0, .size = 1, .slot_bytes = 1},
               [shared](const Result<void>&) { *shared = true; }},
              Urgency::kWaitedFor);
    EXPECT_EQ(kept.use_count(), 2);
  }
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_FALSE(*shared);
}

}  // namespace
}  // namespace pharos::node
