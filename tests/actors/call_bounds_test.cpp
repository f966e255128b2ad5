#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/clock.hpp>

#include "caller/flush_queue.hpp"
#include "caller/outgoing_calls.hpp"
#include "caller/task_pool.hpp"
#include "program/reactor_platform.hpp"
#include "results/result_cell.hpp"
#include "results/waiting_room.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;
using detail::CellHandle;
using detail::ResultCell;
using WhenFull = OutgoingCalls::WhenFull;

// Tests of calls and tasks that reach their bounds. The tests use a clock of their own, which advances only while a
// call waits for room.

constexpr std::size_t kCallBytes = 100;

/// A connection to an actor that reads only as many bytes as the test lets it read.
class StubLink final : public net::Link {
 public:
  explicit StubLink(ManualClock& clock) : clock_{clock} {}

  /// Queues as many bytes as a queue holds, and `more` bytes beyond that.
  void fill(std::size_t more = 1) { queued_ += kQueuedMax + more; }
  void let_read(std::size_t bytes) {
    queued_ -= bytes;
    if (const auto handler = handler_.lock(); handler != nullptr && queued_ <= kQueuedMax) handler->on_room();
  }
  void let_read_all() { let_read(queued_); }
  /// Sets the callback that runs each time a call has waited for room until the deadline of the wait.
  void while_waiting(std::function<void()> then) { while_waiting_ = std::move(then); }
  /// The numbers of the calls that were sent. The first call that the test made has the number 1.
  const std::vector<std::uint64_t>& sent() const { return sent_; }

  void start(const std::shared_ptr<Handler>& handler) override { handler_ = handler; }
  void resume() override {}
  bool send(wire::FrameHeader header, std::span<const std::byte> payload, std::vector<Fd>) override {
    queued_ += sizeof header + payload.size();
    sent_.push_back(header.trace);
    return true;
  }
  void flush() override {}
  std::size_t queued() const override { return queued_; }
  void wait_for_room(std::size_t queued_max, async::Deadline deadline) override {
    if (queued_ <= queued_max) return;
    clock_.advance(deadline.left(clock_.now()));
    while_waiting_();
  }
  void close() override {}
  void drop() override {}

 private:
  ManualClock& clock_;
  std::weak_ptr<Handler> handler_;
  std::size_t queued_ = 0;
  std::function<void()> while_waiting_ = [] {};
  std::vector<std::uint64_t> sent_;
};

class BoundsTest : public testing::Test {
 protected:
  ~BoundsTest() override {
    room_->close();
    flush_queue_->close();
  }

  CellHandle new_call() {
    ResultCell::Call call;
    call.trace = TraceId{++calls_};
    Encoder arguments;
    arguments.write(std::string(kCallBytes, 'x').data(), kCallBytes);
    CellHandle cell = ResultCell::make(room_);
    cell->set_call(call, arguments);
    return cell;
  }
  static bool is_refused(const CellHandle& cell) {
    return cell->ready() && cell->error() != nullptr && cell->error()->code() == ErrorCode::kOverloaded &&
           cell->error()->outcome() == Outcome::kNotStarted;
  }

  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  ReactorPlatform platform_;
  const std::shared_ptr<FlushQueue> flush_queue_ = FlushQueue::make(platform_, 1ms);
  const std::shared_ptr<WaitingRoom> room_ = std::make_shared<WaitingRoom>(
      platform_, [] {}, [](ResultCell&) {}, nullptr);

 private:
  std::uint64_t calls_ = 0;
};

class CallBoundsTest : public BoundsTest {
 protected:
  ~CallBoundsTest() override {
    if (calls_ != nullptr) calls_->lose({ErrorCode::kRuntimeStopped, "the test is over"});
  }

  void connect(OutgoingCalls::Side side, const OutgoingCalls::Bounds& bounds = {}) {
    calls_ = std::make_shared<OutgoingCalls>(
        OutgoingCalls::Sender{.caller = CallerId{1},
                              .side = side,
                              .numbers = std::make_shared<std::atomic<std::uint64_t>>(1),
                              .clock = clock_,
                              .flush_queue = flush_queue_,
                              .bounds = bounds},
        std::weak_ptr<OutgoingCalls::Observer>{});
    calls_->connect(link_, {.actor = ActorId{1}}, {ErrorCode::kActorDied, "it has ended"});
  }
  CellHandle call() {
    CellHandle cell = new_call();
    EXPECT_TRUE(calls_->send(cell, WhenFull::kWait));
    return cell;
  }
  /// Returns false if the call was refused.
  bool try_call() { return calls_->send(new_call(), WhenFull::kRefuse); }
  /// Returns how far the clock advanced while `what` ran.
  Duration time_of(const std::function<void()>& what) const {
    const TimePoint began = clock_->now();
    what();
    return clock_->now() - began;
  }
  /// Makes a worker keep as many calls as it may, for an actor that reads nothing.
  std::vector<CellHandle> keep_as_much_as_may_be() {
    constexpr std::size_t kCalls = 10;
    connect(OutgoingCalls::Side::kWorker, {.held_bytes = kCalls * kCallBytes});
    link_->fill();
    std::vector<CellHandle> kept;
    while (kept.size() < kCalls) kept.push_back(call());
    return kept;
  }

  const std::shared_ptr<StubLink> link_ = std::make_shared<StubLink>(*clock_);
  std::shared_ptr<OutgoingCalls> calls_;
};

TEST_F(CallBoundsTest, AWorkersCallWaits100MillisecondsForAnActorThatReadsNothingAndIsKeptThen) {
  connect(OutgoingCalls::Side::kWorker);
  link_->fill();
  CellHandle first;
  EXPECT_EQ(time_of([&] { first = call(); }), 100ms);
  EXPECT_EQ(time_of([&] { call(); }), 0ms) << "it has read nothing since";
  EXPECT_FALSE(first->ready());
  EXPECT_TRUE(link_->sent().empty());
  link_->let_read_all();
  EXPECT_EQ(link_->sent(), (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(CallBoundsTest, AWorkersCallWaitsAsLongAsTheActorGoesOnReading) {
  connect(OutgoingCalls::Side::kWorker);
  link_->fill(2000);
  link_->while_waiting([&] { link_->let_read(1); });
  EXPECT_EQ(time_of([&] { call(); }), 2000 * 50ms);
  EXPECT_EQ(link_->sent().size(), 1U) << "it was not kept";
}

TEST_F(CallBoundsTest, WithAsMuchKeptAsMayBeAWorkersCallFailsWithOverloadedWhenNothingWasReadFor30Seconds) {
  const auto kept = keep_as_much_as_may_be();
  const CellHandle first = new_call();
  EXPECT_EQ(time_of([&] { calls_->send(first, WhenFull::kWait); }), 30s - 100ms) << "100 ms had passed before";
  EXPECT_TRUE(is_refused(first));
  CellHandle second;
  EXPECT_EQ(time_of([&] { second = call(); }), 0ms) << "it has read nothing since";
  EXPECT_TRUE(is_refused(second));
  EXPECT_TRUE(std::none_of(kept.begin(), kept.end(), [](const auto& each) { return each->ready(); }));
  link_->let_read_all();
  EXPECT_EQ(link_->sent().size(), kept.size()) << "what was kept goes out, and what was refused does not";
  EXPECT_FALSE(call()->ready());
  EXPECT_EQ(link_->sent().size(), kept.size() + 1);
}

TEST_F(CallBoundsTest, WithAsMuchKeptAsMayBeAWorkersCallGoesOutWhenTheActorReadsWithin30Seconds) {
  const auto kept = keep_as_much_as_may_be();
  const TimePoint until = clock_->now() + 29s;
  link_->while_waiting([&] {
    if (clock_->now() >= until) link_->let_read_all();
  });
  CellHandle late;
  EXPECT_EQ(time_of([&] { late = call(); }), 29s);
  EXPECT_FALSE(late->ready());
  ASSERT_EQ(link_->sent().size(), kept.size() + 1);
  EXPECT_TRUE(std::is_sorted(link_->sent().begin(), link_->sent().end()));
}

TEST_F(CallBoundsTest, AProgramsCallWaitsForRoomHoweverLongItTakes) {
  connect(OutgoingCalls::Side::kProgram);
  link_->fill();
  const TimePoint until = clock_->now() + 1h;
  link_->while_waiting([&] {
    if (clock_->now() >= until) link_->let_read_all();
  });
  EXPECT_EQ(time_of([&] { call(); }), 1h);
  EXPECT_EQ(link_->sent().size(), 1U);
}

TEST_F(CallBoundsTest, TryCallWaitsForNothing) {
  for (const auto side : {OutgoingCalls::Side::kProgram, OutgoingCalls::Side::kWorker}) {
    connect(side);
    link_->fill();
    EXPECT_EQ(time_of([&] { EXPECT_FALSE(try_call()); }), 0ms);
    link_->let_read_all();
    EXPECT_TRUE(link_->sent().empty());
    calls_->lose({ErrorCode::kRuntimeStopped, "the next side"});
  }
}

TEST_F(CallBoundsTest, WithTooManyCallsUnansweredTheNextOneIsRefused) {
  connect(OutgoingCalls::Side::kProgram, {.in_flight = 3});
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(call()->ready());
  EXPECT_TRUE(is_refused(call()));
  EXPECT_FALSE(try_call());
  EXPECT_EQ(link_->sent().size(), 3U);
}

/// Never leases a worker.
class NoLeases final : public TaskPool::Leases {
 public:
  void request_lease(TaskPool&) override {}
  void return_lease(WorkerId) override {}
  void kill_worker(WorkerId) override {}
  void tend_soon() override {}
  void worker_disconnected(WorkerId) override {}
  Lineage& lineage() override { std::abort(); }
};

TEST_F(BoundsTest, WithTooManyTasksThatWaitTheNextOneIsRefused) {
  NoLeases leases;
  TaskPool pool{leases, *clock_, Shape::of_cpus(1)};
  pool.set_waiting_max(3);
  std::vector<CellHandle> tasks;
  for (int i = 0; i < 3; ++i) pool.submit(tasks.emplace_back(new_call()));
  const CellHandle one_more = new_call();
  pool.submit(one_more);
  EXPECT_TRUE(is_refused(one_more));
  EXPECT_TRUE(std::none_of(tasks.begin(), tasks.end(), [](const auto& each) { return each->ready(); }));
  ASSERT_TRUE(pool.cancel(*tasks.front()));
  const CellHandle another = new_call();
  pool.submit(another);
  EXPECT_FALSE(another->ready()) << "there is room again";
  pool.close({ErrorCode::kRuntimeStopped, "the test is over"});
}

}  // namespace
}  // namespace pharos::actors
