#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <pharos/async/completion.hpp>
#include <pharos/async/sleep.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::coroutines {
namespace {

using namespace std::chrono_literals;

// Methods that are coroutines: while one waits, its actor runs other calls.

int after(int ms, int value) {
  std::this_thread::sleep_for(std::chrono::milliseconds{ms});
  return value;
}
int fail() {
  throw std::runtime_error{"no result"};
}

struct Overdue {
  int days = 0;
};

/// Answers questions when somebody brings the answers.
class Desk {
 public:
  static constexpr auto pharos_throws = types<Overdue>;

  Reply<int> ask() {
    const Reply<int> reply;
    asked_.push_back(reply);
    return reply;
  }
  Reply<int> ask_a_thread(int ms, int value) {
    const Reply<int> reply;
    std::thread{[reply, ms, value] {
      std::this_thread::sleep_for(std::chrono::milliseconds{ms});
      reply.set(value);
    }}.detach();
    return reply;
  }
  Reply<void> wait_for_a_thread() {
    const Reply<void> reply;
    std::thread{[reply] { reply.set(); }}.detach();
    return reply;
  }
  Reply<std::vector<double>> ask_for_much() {
    const Reply<std::vector<double>> reply;
    std::thread{[reply] { reply.set(std::vector<double>(1'000'000, 0.5)); }}.detach();
    return reply;
  }
  Reply<int> ask_nobody() { return {}; }
  Reply<int> answer_twice() {
    const Reply<int> reply;
    reply.set(1);
    second_counted_ = reply.set(2) || reply.fail(Overdue{1});
    return reply;
  }
  bool second_counted() const { return second_counted_; }
  int answer_all(int value) {
    int first = 0;
    for (const auto& each : asked_) first += each.set(value) ? 1 : 0;
    asked_.clear();
    return first;
  }
  void fail_all() {
    for (const auto& each : asked_) each.fail(Overdue{3});
    asked_.clear();
  }
  void forget_all() { asked_.clear(); }
  int asked() const { return static_cast<int>(asked_.size()); }

 private:
  std::vector<Reply<int>> asked_;
  bool second_counted_ = false;
};

class Counter {
 public:
  int add(int amount) { return value_ += amount; }

 private:
  int value_ = 0;
};

/// Each bring() hands its text to all calls of next() that wait.
class Exchange {
 public:
  Async<std::string> next() {
    waiting_.emplace_back();
    async::Completion<std::string> mine = waiting_.back();
    auto text = co_await mine.wait(Deadline::never());
    if (!text) throw_error(std::move(text).error());
    co_return *std::move(text);
  }
  int bring(const std::string& text) {
    const int served = static_cast<int>(waiting_.size());
    for (auto& each : waiting_) each.complete(text);
    waiting_.clear();
    return served;
  }
  int waiting() const { return static_cast<int>(waiting_.size()); }

  Async<int> at_once(int value) { co_return 2 * value; }
  Async<void> nothing() { co_return; }
  Async<int> throws_at_once() {
    fail();
    co_return 0;
  }

  // The argument must live as long as the coroutine, which refers to it.
  Async<std::string> say_after(const std::string& text, int ms) {
    Runtime runtime;
    const int waited = co_await runtime.submit<&after>(ms, ms);
    co_return text + " after " + std::to_string(waited);
  }
  Async<int> sum_of_tasks(int count) {
    Runtime runtime;
    std::vector<Ref<int>> parts;
    for (int i = 0; i < count; ++i) parts.push_back(runtime.submit<&after>(0, i));
    int sum = 0;
    for (const auto& part : parts) sum += co_await part;
    co_return sum;
  }
  Async<int> catches() {
    Runtime runtime;
    int caught = 0;
    try {
      co_await runtime.submit<&fail>();
    } catch (const UserError&) {
      caught = 1;
    }
    co_return caught;
  }
  Async<int> throws_later() {
    Runtime runtime;
    co_await runtime.submit<&fail>();
    co_return 0;
  }
  Async<int> add_by(Actor<Counter> counter, int times) {
    int value = 0;
    for (int i = 0; i < times; ++i) value = co_await counter.call<&Counter::add>(1);
    co_return value;
  }
  Async<int> nap(int ms) {
    const auto slept = co_await async::sleep(std::chrono::milliseconds{ms});
    co_return slept ? ms : -1;
  }
  // The context must be that of the same call before and after the wait.
  Async<bool> keeps_its_context() {
    const Context before = context();
    const auto slept = co_await async::sleep(1ms);
    co_return slept.ok() && before.trace == context().trace&& before.actor == context().actor&& before.trace;
  }
  Async<int> wait_until_cancelled() {
    const auto slept = co_await async::sleep(20s);
    saw_cancel_ = !slept.ok() && cancelled();
    if (!slept) throw_error(slept.error());
    co_return 1;
  }
  bool saw_cancel() const { return saw_cancel_; }
  int deadline_ms() const {
    const auto left = context().deadline.left(std::chrono::steady_clock::now());
    return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count());
  }

 private:
  std::vector<async::Completion<std::string>> waiting_;
  bool saw_cancel_ = false;
};

class CoroutinesTest : public ClusterTest {};

Deadline soon() {
  return Deadline::after(20s, std::chrono::steady_clock::now());
}

TEST_F(CoroutinesTest, OneThatNeverWaitsIsACallLikeAnyOther) {
  Runtime runtime;
  const auto exchange = runtime.spawn<Exchange>();
  EXPECT_EQ(exchange.call<&Exchange::at_once>(21).get(soon()), 42);
  exchange.call<&Exchange::nothing>().get(soon());
  EXPECT_SAYS(message_of<UserError>([&] { exchange.call<&Exchange::throws_at_once>().get(soon()); }), "no result");
}

TEST_F(CoroutinesTest, OthersRunWhileOneWaits) {
  Runtime runtime;
  const auto exchange = runtime.spawn<Exchange>();
  const auto first = exchange.call<&Exchange::next>();
  const auto second = exchange.call<&Exchange::next>();
  EXPECT_EQ(exchange.call<&Exchange::waiting>().get(soon()), 2);
  EXPECT_FALSE(first.ready());
  EXPECT_EQ(exchange.call<&Exchange::bring>("bread").get(soon()), 2);
  EXPECT_EQ(first.get(soon()), "bread");
  EXPECT_EQ(second.get(soon()), "bread");
}

TEST_F(CoroutinesTest, ThousandsWaitAtOnceAndALateOneDoesNotHoldUpWhatComesBehind) {
  Runtime runtime;
  const auto exchange = runtime.spawn<Exchange>();
  std::vector<Ref<std::string>> waiting;
  for (int i = 0; i < 3000; ++i) waiting.push_back(exchange.call<&Exchange::next>());
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(exchange.call<&Exchange::at_once>(i).get(soon()), 2 * i);
  std::vector<Ref<int>> many;
  for (int i = 0; i < 5000; ++i) many.push_back(exchange.call<&Exchange::at_once>(i));
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(many[static_cast<std::size_t>(i)].get(soon()), 2 * i);
  EXPECT_EQ(exchange.call<&Exchange::bring>("news").get(soon()), 3000);
  for (const auto& each : waiting) EXPECT_EQ(each.get(soon()), "news");
}

TEST_F(CoroutinesTest, AwaitsTasksAndActors) {
  Runtime runtime;
  const auto exchange = runtime.spawn<Exchange>();
  const auto slow = exchange.call<&Exchange::say_after>(std::string(100, 'x'), 200);
  EXPECT_EQ(exchange.call<&Exchange::sum_of_tasks>(50).get(soon()), 49 * 50 / 2);
  EXPECT_EQ(slow.get(soon()), std::string(100, 'x') + " after 200");
  const auto counter = runtime.spawn<Counter>();
  const auto one = exchange.call<&Exchange::add_by>(counter, 100);
  const auto other = exchange.call<&Exchange::add_by>(counter, 100);
  EXPECT_EQ(std::max(one.get(soon()), other.get(soon())), 200);
}

TEST_F(CoroutinesTest, WhatIsAwaitedThrowsThere) {
  Runtime runtime;
  const auto exchange = runtime.spawn<Exchange>();
  EXPECT_EQ(exchange.call<&Exchange::catches>().get(soon()), 1);
  EXPECT_SAYS(message_of<UserError>([&] { exchange.call<&Exchange::throws_later>().get(soon()); }), "no result");
  EXPECT_EQ(exchange.call<&Exchange::at_once>(1).get(soon()), 2);
}

TEST_F(CoroutinesTest, TimersAndContextAreTheCallsOwn) {
  Runtime runtime;
  const auto exchange = runtime.spawn<Exchange>();
  const auto naps = std::vector{exchange.call<&Exchange::nap>(1000), exchange.call<&Exchange::nap>(1000)};
  EXPECT_TRUE(exchange.call<&Exchange::keeps_its_context>().get(soon()));
  EXPECT_LT(time_of([&] {
              for (const auto& nap : naps) EXPECT_EQ(nap.get(soon()), 1000);
            }),
            1900ms);
}

TEST_F(CoroutinesTest, ACancelledOneStopsWaitingAndSeesWhy) {
  Runtime runtime;
  const auto exchange = runtime.spawn<Exchange>();
  const auto waits = exchange.call<&Exchange::wait_until_cancelled>();
  EXPECT_EQ(exchange.call<&Exchange::at_once>(1).get(soon()), 2);
  waits.cancel();
  message_of<Cancelled>([&] { waits.get(soon()); });
  EXPECT_TRUE(exchange.call<&Exchange::saw_cancel>().get(soon()));
}

TEST_F(CoroutinesTest, ADeadlineEndsOneThatWaits) {
  Runtime runtime;
  const auto exchange = runtime.spawn<Exchange>();
  EXPECT_EQ(exchange.call<&Exchange::at_once>(1).get(soon()), 2);  // so that the actor has started
  const auto waits = exchange.call<&Exchange::wait_until_cancelled>(CallOptions{.deadline = Deadline::in(500ms)});
  message_of<DeadlineExceeded>([&] { waits.get(soon()); });
  EXPECT_TRUE(eventually([&] { return exchange.call<&Exchange::saw_cancel>().get(soon()); }));
}

TEST_F(CoroutinesTest, TheDeathOfItsActorEndsOneThatWaits) {
  Runtime runtime;
  const auto exchange = runtime.spawn<Exchange>();
  const auto waits = exchange.call<&Exchange::next>();
  EXPECT_EQ(exchange.call<&Exchange::at_once>(1).get(soon()), 2);
  exchange.kill();
  message_of<ActorDied>([&] { waits.get(soon()); });
}

// ---- Methods that answer later

TEST_F(CoroutinesTest, AReplyIsSetByAnotherCall) {
  Runtime runtime;
  const auto desk = runtime.spawn<Desk>();
  const auto first = desk.call<&Desk::ask>();
  const auto second = desk.call<&Desk::ask>();
  EXPECT_EQ(desk.call<&Desk::asked>().get(soon()), 2);
  EXPECT_FALSE(first.ready());
  EXPECT_EQ(desk.call<&Desk::answer_all>(7).get(soon()), 2);
  EXPECT_EQ(first.get(soon()), 7);
  EXPECT_EQ(second.get(soon()), 7);
}

TEST_F(CoroutinesTest, AReplyIsSetByAnyThread) {
  Runtime runtime;
  const auto desk = runtime.spawn<Desk>();
  std::vector<Ref<int>> all;
  for (int i = 0; i < 50; ++i) all.push_back(desk.call<&Desk::ask_a_thread>(i % 5, i));
  desk.call<&Desk::wait_for_a_thread>().get(soon());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)].get(soon()), i);
  EXPECT_EQ(desk.call<&Desk::ask_for_much>().get(soon()).size(), 1'000'000U);
}

TEST_F(CoroutinesTest, OnlyTheFirstAnswerOfAReplyCounts) {
  Runtime runtime;
  const auto desk = runtime.spawn<Desk>();
  EXPECT_EQ(desk.call<&Desk::answer_twice>().get(soon()), 1);
  EXPECT_FALSE(desk.call<&Desk::second_counted>().get(soon()));
}

TEST_F(CoroutinesTest, AReplyFailsWithAnExceptionOfTheUser) {
  Runtime runtime;
  const auto desk = runtime.spawn<Desk>();
  const auto asked = desk.call<&Desk::ask>();
  desk.call<&Desk::fail_all>().get(soon());
  int days = 0;
  try {
    asked.get(soon());
  } catch (const Overdue& overdue) {
    days = overdue.days;
  }
  EXPECT_EQ(days, 3);
}

TEST_F(CoroutinesTest, AReplyThatNobodyCanSetAnyMoreIsAnError) {
  Runtime runtime;
  const auto desk = runtime.spawn<Desk>();
  EXPECT_SAYS(message_of<UserError>([&] { desk.call<&Desk::ask_nobody>().get(soon()); }), "without an answer");
  const auto asked = desk.call<&Desk::ask>();
  desk.call<&Desk::forget_all>().get(soon());
  EXPECT_SAYS(message_of<UserError>([&] { asked.get(soon()); }), "without an answer");
}

TEST_F(CoroutinesTest, ACallThatWaitsForAReplyIsCancelledAndHasADeadline) {
  Runtime runtime;
  const auto desk = runtime.spawn<Desk>();
  const auto cancelled = desk.call<&Desk::ask>();
  const auto late = desk.call<&Desk::ask>(CallOptions{.deadline = Deadline::in(200ms)});
  EXPECT_EQ(desk.call<&Desk::asked>().get(soon()), 2);
  cancelled.cancel();
  message_of<Cancelled>([&] { cancelled.get(soon()); });
  message_of<DeadlineExceeded>([&] { late.get(soon()); });
  EXPECT_EQ(desk.call<&Desk::answer_all>(7).get(soon()), 2);  // which reaches nobody
}

}  // namespace
}  // namespace pharos::cluster::coroutines
