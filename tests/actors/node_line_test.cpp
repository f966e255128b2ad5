#include "caller/node_line.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "node_fixture.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;

class NodeLineTest : public NodeTest {
 protected:
  ~NodeLineTest() override { end(); }

  void tell(std::uint64_t number) { line_->tell(wire::KillActor{ActorId{number}}); }
  void send_now(std::uint64_t number) { line_->send_now(wire::KillActor{ActorId{number}}); }
  std::uint64_t next() { return node_.next<wire::KillActor>().message.actor.value(); }
  std::vector<std::uint64_t> heard() {
    std::vector<std::uint64_t> numbers;
    for (const auto& each : all_heard<wire::KillActor>()) numbers.push_back(each.actor.value());
    return numbers;
  }
  /// Asks the node in the background, on the strand.
  std::future<Result<net::Parcel>> request(Deadline deadline = Deadline::never()) {
    std::promise<Result<net::Parcel>> promise;
    auto outcome = promise.get_future();
    line_->spawn(ask_line(line_.get(), deadline, std::move(promise)));
    return outcome;
  }

 private:
  static async::Async<void> ask_line(NodeLine* line, Deadline deadline, std::promise<Result<net::Parcel>> outcome) {
    outcome.set_value(co_await line->request(wire::LeaseWorker{}, deadline));
  }
};

using Numbers = std::vector<std::uint64_t>;

TEST_F(NodeLineTest, ItKnowsWhatTheNodeHasRegisteredAndItsPlatform) {
  EXPECT_EQ(line_->registered().job, kJob);
  EXPECT_EQ(line_->registered().caller, kCaller);
  EXPECT_EQ(line_->registered().node, kHere);
  EXPECT_EQ(line_->registered().cpus, kCpus);
  EXPECT_EQ(&line_->platform(), platform_.get());
  EXPECT_EQ(&line_->executor(), &platform_->executor());
}

TEST_F(NodeLineTest, TheNodeIsToldEachMessageAfterAllEarlierOnes) {
  Numbers all;
  for (std::uint64_t number = 1; number <= 100; ++number) {
    tell(number);
    all.push_back(number);
  }
  EXPECT_EQ(heard(), all);
}

TEST_F(NodeLineTest, WhatIsSentNowDoesNotWaitForWhatIsTold) {
  StrandHeld held{line_->executor()};
  tell(1);
  send_now(2);
  EXPECT_EQ(next(), 2U) << "the first message waits for the strand";
  held.release();
  EXPECT_EQ(next(), 1U);
}

TEST_F(NodeLineTest, FinishTellingWaitsUntilAllMessagesHaveBeenSent) {
  StrandHeld held{line_->executor()};
  tell(1);
  tell(2);
  auto finishes = in_thread([line = line_] { line->finish_telling(); });
  EXPECT_FALSE(is_over(finishes));
  held.release();
  outcome_of(finishes);
  send_now(3);
  EXPECT_EQ(heard(), (Numbers{1, 2, 3}));
}

TEST_F(NodeLineTest, AfterTellingRunsOnTheStrandWhenTheEarlierMessagesHaveBeenSent) {
  std::thread::id ran_on;
  StrandHeld held{line_->executor()};
  tell(1);
  line_->after_telling([&] {
    ran_on = std::this_thread::get_id();
    send_now(2);
  });
  tell(3);
  held.release();
  EXPECT_EQ(heard(), (Numbers{1, 2, 3}));
  EXPECT_EQ(ran_on, polling_.id());
}

TEST_F(NodeLineTest, AfterHangUpNothingIsToldAndWhatWaitsIsDropped) {
  bool ran = false;
  StrandHeld held{line_->executor()};
  tell(1);
  line_->hang_up({ErrorCode::kUnavailable, "the node is gone"});
  tell(2);
  line_->after_telling([&] { ran = true; });
  held.release();
  EXPECT_EQ(heard(), Numbers{});
  EXPECT_TRUE(ran) << "the messages before it have been dropped";
}

TEST_F(NodeLineTest, ItSaysWhyItIsOverAndOnlyTheFirstReasonCounts) {
  EXPECT_EQ(line_->over(), std::nullopt);
  line_->hang_up({ErrorCode::kUnavailable, "the node is gone"});
  line_->hang_up({ErrorCode::kRuntimeStopped, "the Runtime ends"});
  ASSERT_TRUE(line_->over());
  EXPECT_EQ(line_->over()->code(), ErrorCode::kUnavailable);
  EXPECT_EQ(line_->over()->message(), "the node is gone");
}

TEST_F(NodeLineTest, ARequestGetsTheNodesAnswer) {
  auto asks = request();
  node_.answer(node_.next<wire::LeaseWorker>(), wire::ActorHeld{7});
  const auto answer = outcome_of(asks);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(std::get<wire::ActorHeld>(answer->message).number, 7U);
}

TEST_F(NodeLineTest, ARequestFailsAsTheNodeSaysOrAtItsDeadlineOrWithTheNode) {
  auto refused = request();
  node_.refuse(node_.next<wire::LeaseWorker>(), {ErrorCode::kExhausted, "no worker can start"});
  EXPECT_EQ(outcome_of(refused).error().message(), "no worker can start");
  auto late = request(Deadline::in(1ms));
  EXPECT_EQ(outcome_of(late).error().code(), ErrorCode::kDeadlineExceeded);
  node_.next<wire::LeaseWorker>();
  auto unanswered = request();
  node_.next<wire::LeaseWorker>();
  node_.hang_up();
  EXPECT_EQ(outcome_of(unanswered).error().code(), ErrorCode::kUnavailable);
  auto after = request();
  EXPECT_EQ(outcome_of(after).error().code(), ErrorCode::kUnavailable);
}

TEST_F(NodeLineTest, CoroutinesRunOnTheStrand) {
  std::thread::id ran_on;
  line_->spawn(run([&] { ran_on = std::this_thread::get_id(); }));
  settle();
  EXPECT_EQ(ran_on, polling_.id());
}

TEST_F(NodeLineTest, EndCancelsTheCoroutinesAndWaitsForThem) {
  auto asks = request();
  node_.next<wire::LeaseWorker>();
  StrandHeld held{line_->executor()};
  auto ends = in_thread([line = line_] { line->end(); });
  EXPECT_FALSE(is_over(ends)) << "the coroutine cannot end yet";
  held.release();
  outcome_of(ends);
  ASSERT_TRUE(is_over(asks));
  EXPECT_EQ(asks.get().error().code(), ErrorCode::kCancelled);
}

TEST_F(NodeLineTest, EndReturnsAtOnceWithoutCoroutines) {
  const StrandHeld held{line_->executor()};
  auto ends = in_thread([line = line_] { line->end(); });
  outcome_of(ends);
}

TEST_F(NodeLineTest, AbandonOnlyMarksTheLine) {
  EXPECT_FALSE(line_->abandoned());
  line_->abandon();
  EXPECT_TRUE(line_->abandoned());
  EXPECT_EQ(line_->over(), std::nullopt);
  tell(1);
  EXPECT_EQ(heard(), Numbers{1});
}

async::Async<void> throw_in_background() {
  throw std::runtime_error{"nobody catches this"};
  co_return;
}

TEST(NodeLineDeathTest, AnExceptionThatLeavesACoroutineAbortsTheProcess) {
  EXPECT_DEATH(
      {
        const auto platform = std::make_shared<ReactorPlatform>();
        const auto line = std::make_shared<NodeLine>(platform);
        line->spawn(throw_in_background());
        for (;;) platform->reactor().poll_one(Deadline::in(kFarTime));
      },
      "nobody catches this");
}

}  // namespace
}  // namespace pharos::actors
