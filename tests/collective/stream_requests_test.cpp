// What the owner of a StreamBackend and the backend's thread tell each other, and how operations are numbered.

#include "stream/stream_requests.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "says.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

TimePoint in(Duration time) {
  return std::chrono::steady_clock::now() + time;
}

class Requests : public testing::Test {
 protected:
  std::shared_ptr<StreamOperation> barrier(std::uint64_t number) {
    const Operation operation{};
    return std::make_shared<StreamOperation>(Among::kAll, rows.team(Among::kAll), OperationId{0, number},
                                             detail::Step{operation, operation}, detail::Places{}, buffers);
  }

  ScratchBuffers buffers;
  const StreamRows rows{0, 2, {}};
  int woken = 0;
  int heard = 0;
  StreamRequests requests{[this] { ++woken; }, [this] { ++heard; }};
};

TEST_F(Requests, AreTakenOnceAndInOrder) {
  requests.add(barrier(1));
  requests.add(barrier(2));
  EXPECT_EQ(woken, 2);
  const auto taken = requests.take_new();
  ASSERT_TRUE(taken);
  ASSERT_EQ(taken->operations.size(), 2U);
  EXPECT_EQ(taken->operations.front()->order.number, 1U);
  EXPECT_TRUE(requests.take_new()->operations.empty());
}

TEST_F(Requests, WaitReturnsWhenTheThreadSaysThatTheOperationHasEnded) {
  const auto first = barrier(1);
  requests.add(first);
  EXPECT_FALSE(*requests.has_ended(*first));
  std::thread thread{[&] { requests.say_ended(*requests.take_new()->operations.front()); }};
  EXPECT_TRUE(requests.wait_for(*first, in(20s)));
  thread.join();
  EXPECT_TRUE(*requests.has_ended(*first));
  EXPECT_EQ(heard, 1);
}

TEST_F(Requests, AnOverdueOperationIsReportedToTheThreadUntilAllFail) {
  const auto first = barrier(1);
  requests.add(first);
  std::thread thread{[&] {
    std::optional<std::string> overdue;
    while (!overdue) {
      overdue = requests.take_new()->overdue;
      std::this_thread::yield();
    }
    EXPECT_SAYS(*overdue, "operation 1,");
    requests.say_failed(Error{ErrorCode::kDeadlineExceeded, "rank 1 is late"});
  }};
  const auto ended = requests.wait_for(*first, in(10ms));
  thread.join();
  ASSERT_FALSE(ended);
  EXPECT_SAYS(ended.error().message(), "rank 1 is late");
  EXPECT_FALSE(requests.take_new()->overdue);
}

TEST_F(Requests, AnOperationThatEndedBeforeTheFailureHasEnded) {
  const auto first = barrier(1);
  const auto second = barrier(2);
  requests.say_ended(*first);
  requests.say_failed(Error{ErrorCode::kActorDied, "rank 1 has died"});
  EXPECT_TRUE(*requests.has_ended(*first));
  EXPECT_FALSE(requests.has_ended(*second));
  requests.add(second);
  EXPECT_TRUE(requests.take_new()->operations.empty());
}

TEST_F(Requests, FailReturnsWhenTheThreadHasFailedAllOperations) {
  std::thread thread{[&] {
    for (;;) {
      const auto taken = requests.take_new();
      if (taken->fails) return requests.say_failed(*taken->fails);
      std::this_thread::yield();
    }
  }};
  requests.fail(Error{ErrorCode::kCancelled, "the loss is not a number"});
  EXPECT_SAYS(requests.failure()->message(), "the loss is not a number");
  thread.join();
}

TEST_F(Requests, TheOwnerWaitsForWhomItHasSaid) {
  const auto missing = [](const OperationId& order) { return std::optional{static_cast<std::uint32_t>(order.number)}; };
  EXPECT_FALSE(requests.whom_the_owner_waits_for(missing));
  requests.waits_for(OperationId{0, 5});
  EXPECT_EQ(requests.whom_the_owner_waits_for(missing), 5U);
  requests.waits_for([] { return std::optional<std::uint32_t>{1}; });
  EXPECT_EQ(requests.whom_the_owner_waits_for(missing), 1U);
  requests.waits_no_more();
  EXPECT_FALSE(requests.whom_the_owner_waits_for(missing));
}

TEST_F(Requests, AreNoMoreOnceTheOwnerCloses) {
  requests.close();
  EXPECT_FALSE(requests.take_new());
  requests.wait_for_close();  // returns at once
}

TEST(StreamRows, CountEachDirectionOfMessagesByItself) {
  const StreamRows rows{1, 3, {}};
  const Operation sent{.kind = Operation::Kind::kMessage, .root = 1, .to = 2};
  const Operation received{.kind = Operation::Kind::kMessage, .root = 2, .to = 1};
  EXPECT_NE(rows.row_of(Among::kTwo, sent), rows.row_of(Among::kTwo, received));
  EXPECT_EQ(rows.row_of_data(Among::kTwo, 2), rows.row_of(Among::kTwo, received));
  EXPECT_EQ(rows.row_with(2, Among::kTwo, sent), rows.row_of(Among::kTwo, sent));
  EXPECT_LT(rows.row_of(Among::kTwo, received), rows.count());
}

TEST(StreamRows, RefuseOperationsInWhichTheOtherRankTakesNoPart) {
  const StreamRows rows{1, 4, {1, 3}};
  const Operation of_others{.kind = Operation::Kind::kMessage, .root = 0, .to = 2};
  EXPECT_FALSE(rows.row_with(0, Among::kTwo, of_others));
  EXPECT_FALSE(rows.row_with(2, Among::kLane, {}));
  EXPECT_TRUE(rows.row_with(3, Among::kLane, {}));
  EXPECT_EQ(rows.team(Among::kLane).own, 0U);
  EXPECT_EQ(rows.team(Among::kAll).own, 1U);
}

}  // namespace
}  // namespace pharos::ml
