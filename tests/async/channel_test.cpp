#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <pharos/async/channel.hpp>

#include "started.hpp"

namespace pharos::async {
namespace {

using namespace std::chrono_literals;

class ChannelTest : public testing::Test {
 protected:
  using Sent = Started<Result<void>>;
  using Received = Started<Result<int>>;

  Deadline in(Duration duration) { return Deadline::after(duration, executor_); }

  ManualExecutor executor_;
  Channel<int> channel_{2};
};

TEST_F(ChannelTest, GivesValuesInTheOrderInWhichTheyWereSent) {
  EXPECT_TRUE(channel_.try_send(1).ok());
  EXPECT_TRUE(channel_.try_send(2).ok());
  Received first{executor_, channel_.receive(in(1s))};
  Received second{executor_, channel_.receive(in(1s))};
  EXPECT_EQ(first.value().value(), 1);
  EXPECT_EQ(second.value().value(), 2);
}

TEST_F(ChannelTest, AReceiverWaitsForAValue) {
  Received receiver{executor_, channel_.receive(in(1s))};
  EXPECT_FALSE(receiver.ended());
  EXPECT_TRUE(channel_.try_send(7).ok());
  executor_.run_until_idle();
  EXPECT_EQ(receiver.value().value(), 7);
  EXPECT_EQ(channel_.size(), 0u);
}

TEST_F(ChannelTest, ReceiversAreServedInTheirOrder) {
  Received first{executor_, channel_.receive(in(1s))};
  Received second{executor_, channel_.receive(in(1s))};
  EXPECT_TRUE(channel_.try_send(1).ok());
  executor_.run_until_idle();
  EXPECT_EQ(first.value().value(), 1);
  EXPECT_FALSE(second.ended());
}

TEST_F(ChannelTest, ASenderWaitsWhileItIsFullAndKeepsItsTurn) {
  EXPECT_TRUE(channel_.try_send(1).ok());
  EXPECT_TRUE(channel_.try_send(2).ok());
  Sent third{executor_, channel_.send(3, in(1s))};
  Sent fourth{executor_, channel_.send(4, in(1s))};
  EXPECT_FALSE(third.ended());
  std::vector<int> received;
  for (int i = 0; i < 4; ++i) {
    Received receiver{executor_, channel_.receive(in(1s))};
    received.push_back(receiver.value().value());
  }
  EXPECT_EQ(received, (std::vector{1, 2, 3, 4}));
  EXPECT_TRUE(third.value().ok());
  EXPECT_TRUE(fourth.value().ok());
}

TEST_F(ChannelTest, NeverHoldsMoreThanItsCapacity) {
  Sent one{executor_, channel_.send(1, in(1s))};
  Sent two{executor_, channel_.send(2, in(1s))};
  Sent three{executor_, channel_.send(3, in(1s))};
  EXPECT_EQ(channel_.size(), 2u);
  Received receiver{executor_, channel_.receive(in(1s))};
  EXPECT_EQ(channel_.size(), 2u) << "the waiting sender's value takes the free place";
}

TEST_F(ChannelTest, TrySendIsRefusedWhenFull) {
  EXPECT_TRUE(channel_.try_send(1).ok());
  EXPECT_TRUE(channel_.try_send(2).ok());
  const auto refused = channel_.try_send(3);
  EXPECT_EQ(refused.error().code(), ErrorCode::kOverloaded);
  EXPECT_NE(refused.error().message().find("2 values"), std::string::npos);
}

TEST_F(ChannelTest, AWaitEndsAtItsDeadlineAndTakesNothingWithIt) {
  {
    Received receiver{executor_, channel_.receive(in(1s))};
    executor_.advance(1s);
    EXPECT_EQ(receiver.value().error().code(), ErrorCode::kDeadlineExceeded);
  }
  EXPECT_TRUE(channel_.try_send(1).ok());
  EXPECT_TRUE(channel_.try_send(2).ok());
  {
    Sent sender{executor_, channel_.send(3, in(1s))};
    executor_.advance(1s);
    EXPECT_EQ(sender.value().error().code(), ErrorCode::kDeadlineExceeded);
  }
  Received first{executor_, channel_.receive(in(1s))};
  Received second{executor_, channel_.receive(in(1s))};
  EXPECT_EQ(first.value().value(), 1);
  EXPECT_EQ(second.value().value(), 2);
  EXPECT_EQ(channel_.size(), 0u) << "the value of the sender that gave up came in";
}

TEST_F(ChannelTest, AReceiverThatGaveUpDoesNotSwallowTheNextValue) {
  Received gave_up{executor_, channel_.receive(in(1s))};
  Received patient{executor_, channel_.receive(in(1h))};
  executor_.advance(1s);
  EXPECT_TRUE(channel_.try_send(1).ok());
  executor_.run_until_idle();
  EXPECT_EQ(patient.value().value(), 1);
}

TEST_F(ChannelTest, AfterCloseReceiversDrainWhatIsLeftAndThenEnd) {
  EXPECT_TRUE(channel_.try_send(1).ok());
  channel_.close();
  EXPECT_TRUE(channel_.closed());
  EXPECT_EQ(channel_.try_send(2).error().code(), ErrorCode::kCancelled);
  Received drained{executor_, channel_.receive(in(1s))};
  EXPECT_EQ(drained.value().value(), 1);
  Received ended{executor_, channel_.receive(in(1s))};
  EXPECT_EQ(ended.value().error().code(), ErrorCode::kCancelled);
}

TEST_F(ChannelTest, CloseWakesEverybodyWhoWaits) {
  Received receiver{executor_, channel_.receive(in(1h))};
  channel_.close();
  executor_.run_until_idle();
  EXPECT_EQ(receiver.value().error().code(), ErrorCode::kCancelled);

  Channel<int> full{1};
  EXPECT_TRUE(full.try_send(1).ok());
  Sent sender{executor_, full.send(2, in(1h))};
  full.close();
  executor_.run_until_idle();
  EXPECT_EQ(sender.value().error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(full.size(), 1u);
}

TEST_F(ChannelTest, ItsWaitersMayOutliveIt) {
  std::optional<Channel<int>> channel{std::in_place, 1u};
  Received receiver{executor_, channel->receive(in(1h))};
  channel.reset();
  executor_.run_until_idle();
  EXPECT_EQ(receiver.value().error().code(), ErrorCode::kCancelled);
}

TEST_F(ChannelTest, ACancelledReceiverEndsThoughThereAreValues) {
  AsyncGroup group{executor_};
  std::optional<Result<int>> received;
  EXPECT_TRUE(channel_.try_send(1).ok());
  group.cancel();
  group.spawn(detail::keep(channel_.receive(in(1s)), &received));
  executor_.run_until_idle();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(channel_.size(), 1u);
}

TEST_F(ChannelTest, CancellingWaitersLeavesNothingBehind) {
  Received receiver{executor_, channel_.receive(in(1h))};
  receiver.cancel();
  EXPECT_EQ(receiver.value().error().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(channel_.try_send(1).ok());
  EXPECT_EQ(channel_.size(), 1u);
  EXPECT_EQ(executor_.next_timer(), std::nullopt);
}

TEST_F(ChannelTest, CarriesWhatCannotBeCopied) {
  Channel<std::unique_ptr<int>> channel{1};
  EXPECT_TRUE(channel.try_send(std::make_unique<int>(3)).ok());
  Started<Result<void>> sender{executor_, channel.send(std::make_unique<int>(4), in(1s))};
  Started<Result<std::unique_ptr<int>>> first{executor_, channel.receive(in(1s))};
  Started<Result<std::unique_ptr<int>>> second{executor_, channel.receive(in(1s))};
  EXPECT_EQ(*first.value().value(), 3);
  EXPECT_EQ(*second.value().value(), 4);
}

}  // namespace
}  // namespace pharos::async
