#include "caller/connector.hpp"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <semaphore>
#include <string>
#include <vector>

#include <pharos/wire/codec.hpp>

#include "node_fixture.hpp"
#include "says.hpp"

namespace pharos::actors {
namespace {

using detail::CellHandle;

/// Keeps what comes with results, and lets the test say when it is held.
class ReceiverByHand final : public OutgoingCalls::Receiver {
 public:
  std::shared_ptr<detail::ActorHandle> receive(const CarriedActor& carried) override {
    came.set_value(carried);
    return nullptr;
  }
  void when_held(async::Callback then) override { waits.set_value(std::move(then)); }

  std::promise<CarriedActor> came;
  std::promise<async::Callback> waits;
};

class EndObserver final : public OutgoingCalls::Observer {
 public:
  void on_replies(OutgoingCalls&, std::size_t, Duration, std::size_t) override {}
  void on_returned(OutgoingCalls&, std::vector<CellHandle>, bool) override {}
  void on_disconnected(OutgoingCalls&) override { ended_.release(); }
  bool sees_the_end() { return ended_.try_acquire_for(kFarTime); }

 private:
  std::counting_semaphore<> ended_{0};
};

class ConnectorTest : public NodeTest {
 protected:
  ConnectorTest() {
    connector_->join(kCaller, receiver_);
    calls_ = connector_->open(observer_);
  }
  ~ConnectorTest() override {
    calls_->lose({ErrorCode::kRuntimeStopped, "the test is over"});
    end();
  }

  WorkerByHand connect(const wire::WorkerReady& ready) {
    net::Parcel answer{ready, {}};
    WorkerByHand worker{answer.descriptors.emplace_back()};
    connector_->connect(*calls_, std::move(answer), "the actor \"counter\"");
    return worker;
  }
  /// Makes a call that is under way when its connection ends.
  CellHandle call_before_the_end(const wire::WorkerReady& ready) {
    auto worker = connect(ready);
    const CellHandle cell = call(*calls_);
    worker.next();
    worker.die();
    EXPECT_TRUE(observer_->sees_the_end());
    EXPECT_FALSE(cell->ready()) << "it waits for what the node says";
    return cell;
  }

  const wire::WorkerReady first_{.worker = WorkerId{9}, .actor = ActorId{7}, .incarnation = 1};
  const std::shared_ptr<ReceiverByHand> receiver_ = std::make_shared<ReceiverByHand>();
  const std::shared_ptr<EndObserver> observer_ = std::make_shared<EndObserver>();
  std::shared_ptr<OutgoingCalls> calls_;
};

TEST_F(ConnectorTest, CallsThatWaitGoToTheWorkerOfTheAnswer) {
  const CellHandle cell = call(*calls_);
  const auto worker = connect(first_);
  const auto frame = worker.next();
  EXPECT_EQ(frame.header.kind, wire::FrameKind::kCall);
  EXPECT_EQ(frame.header.caller, kCaller.value());
  EXPECT_EQ(frame.header.actor, 7U);
  EXPECT_EQ(frame.header.incarnation, 1U);
  EXPECT_EQ(frame.payload.size(), 4U);
  worker.reply(frame.header.number);
  EXPECT_TRUE(has_value(cell));
}

TEST_F(ConnectorTest, EachOpenMakesOtherCalls) {
  const auto others = connector_->open(observer_);
  EXPECT_NE(others, calls_);
  others->lose({ErrorCode::kActorDied, "it has ended"});
  EXPECT_FALSE(calls_->lost());
}

TEST_F(ConnectorTest, TheReceiverTakesWhatComesWithAResult) {
  const CellHandle cell = call(*calls_);
  const auto worker = connect(first_);
  const auto frame = worker.next();
  Encoder result;
  Codec<std::vector<CarriedActor>>::encode({{ActorId{12}, "carried"}}, result);
  worker.reply(frame.header.number, result.bytes(), wire::kCarriesActors);
  EXPECT_TRUE(has_value(cell));
  auto came = receiver_->came.get_future();
  const CarriedActor carried = outcome_of(came);
  EXPECT_EQ(carried.id, ActorId{12});
  EXPECT_EQ(carried.label, "carried");
  const CellHandle next = call(*calls_);
  EXPECT_EQ(worker.next().header.kind, wire::FrameKind::kCall) << "it does not say yet that it has the handle";
  auto waits = receiver_->waits.get_future();
  outcome_of(waits)();
  const auto received = worker.next();
  EXPECT_EQ(received.header.kind, wire::FrameKind::kReceived);
  EXPECT_EQ(received.header.number, frame.header.number);
}

TEST_F(ConnectorTest, WithAnAnswerThatNamesNoWorkerTheCallsAndAllLaterOnesFail) {
  const CellHandle waits = call(*calls_);
  connector_->connect(*calls_, net::Parcel{wire::Done{}, {}}, "the worker");
  EXPECT_EQ(error_of(waits).code(), ErrorCode::kInternal);
  EXPECT_EQ(error_of(call(*calls_)).code(), ErrorCode::kInternal);
  const auto worker = connect(first_);
  EXPECT_TRUE(worker.sees_the_end());
  EXPECT_EQ(error_of(call(*calls_)).code(), ErrorCode::kInternal);
}

TEST_F(ConnectorTest, ACallThatWasUnderWayFailsWithTheWorkersNameWhenTheNextOneIsThere) {
  const CellHandle cell = call_before_the_end(first_);
  const auto next = connect({.worker = WorkerId{10}, .actor = ActorId{7}, .incarnation = 2});
  const Error why = error_of(cell);
  EXPECT_EQ(why.code(), ErrorCode::kActorDied);
  EXPECT_EQ(why.outcome(), Outcome::kUnknown);
  EXPECT_EQ(why.message(), "the actor \"counter\" lost its connection while the call was under way");
  EXPECT_SAYS(why.remedy(), "max_task_retries");
}

TEST_F(ConnectorTest, ItsErrorSaysHowThePreviousIncarnationEnded) {
  const CellHandle cell = call_before_the_end(first_);
  const auto next = connect({.worker = WorkerId{10}, .actor = ActorId{7}, .incarnation = 2, .ended = "it crashed"});
  EXPECT_EQ(error_of(cell).code(), ErrorCode::kActorDied);
  EXPECT_EQ(error_of(cell).message(), "the actor \"counter\" was restarted while the call was under way: it crashed");
}

TEST_F(ConnectorTest, ItsErrorIsExhaustedIfTheNodeHadTooLittleMemory) {
  const CellHandle cell = call_before_the_end(first_);
  const auto next = connect(
      {.worker = WorkerId{10}, .actor = ActorId{7}, .incarnation = 2, .ended = "it was killed", .out_of_memory = true});
  EXPECT_EQ(error_of(cell).code(), ErrorCode::kExhausted);
}

TEST_F(ConnectorTest, ACallThatMayBeSentAgainGoesToTheNextIncarnation) {
  const CellHandle cell = call_before_the_end(first_);
  const auto next = connect({.worker = WorkerId{10}, .actor = ActorId{7}, .incarnation = 2, .max_task_retries = 1});
  const auto frame = next.next();
  EXPECT_EQ(frame.header.incarnation, 2U);
  EXPECT_EQ(frame.header.attempt, 1);
  next.reply(frame.header.number);
  EXPECT_TRUE(has_value(cell));
}

TEST_F(ConnectorTest, ACallToTheSameIncarnationOnAnotherMachineIsSentAgainUnderItsNumber) {
  wire::WorkerReady remote = first_;
  remote.remote = true;
  auto worker = connect(remote);
  const CellHandle cell = call(*calls_);
  const auto sent = worker.next();
  worker.die();
  ASSERT_TRUE(observer_->sees_the_end());
  const auto again = connect(remote);
  const auto frame = again.next();
  EXPECT_EQ(frame.header.number, sent.header.number);
  EXPECT_EQ(frame.header.attempt, 0);
  again.reply(frame.header.number);
  EXPECT_TRUE(has_value(cell));
}

}  // namespace
}  // namespace pharos::actors
