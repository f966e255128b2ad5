#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::actors {
namespace {

class Counter {
 public:
  Counter() = default;
  explicit Counter(int start) : value_{start} {}
  Counter(int start, const std::string& name) : value_{start}, name_{name} {}

  int add(int amount) { return value_ += amount; }
  int value() const { return value_; }
  std::string name() const { return name_; }
  int process() const { return ::getpid(); }

 private:
  int value_ = 0;
  std::string name_ = "nobody";
};

/// Records whether the calls of each thread arrive in order.
class Ledger {
 public:
  void note(int thread, int number) { in_order_ = in_order_ && number == next_[thread]++; }
  bool in_order() const { return in_order_; }
  int noted(int thread) const { return next_[thread]; }

 private:
  bool in_order_ = true;
  int next_[8] = {};
};

/// Detects overlapping calls: enter() then returns more than 1.
class Alone {
 public:
  int enter() {
    const int inside = ++inside_;
    for (int i = 0; i < 100; ++i) spin_ = spin_ + 1;
    --inside_;
    return inside;
  }

 private:
  std::atomic<int> inside_ = 0;
  volatile int spin_ = 0;
};

using ActorsTest = ClusterTest;

TEST_F(ActorsTest, AnActorKeepsItsStateBetweenCalls) {
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>(10);
  EXPECT_EQ(counter.call<&Counter::add>(1).get(), 11);
  EXPECT_EQ(counter.call<&Counter::add>(2).get(), 13);
  EXPECT_EQ(counter.call<&Counter::value>().get(), 13);
}

TEST_F(ActorsTest, EachConstructorCanBeChosenByItsArguments) {
  Runtime runtime;
  EXPECT_EQ(runtime.spawn<Counter>().call<&Counter::value>().get(), 0);
  EXPECT_EQ(runtime.spawn<Counter>(5).call<&Counter::value>().get(), 5);
  const auto named = runtime.spawn<Counter>(6, "somebody");
  EXPECT_EQ(named.call<&Counter::value>().get(), 6);
  EXPECT_EQ(named.call<&Counter::name>().get(), "somebody");
}

TEST_F(ActorsTest, AnActorWithAnOptionNameHasItInMessages) {
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>(ActorOptions{.name = "tally/1"}, 1);
  EXPECT_EQ(counter.call<&Counter::add>(1).get(), 2);
  counter.kill();
  EXPECT_SAYS(message_of<ActorDied>([&] { counter.call<&Counter::value>().get(); }), "tally/1");
}

TEST_F(ActorsTest, EachActorHasAProcessOfItsOwn) {
  Runtime runtime;
  const auto one = runtime.spawn<Counter>();
  const auto two = runtime.spawn<Counter>();
  const int first = one.call<&Counter::process>().get();
  EXPECT_NE(first, two.call<&Counter::process>().get());
  EXPECT_NE(first, ::getpid());
  EXPECT_EQ(first, one.call<&Counter::process>().get());
  EXPECT_NE(one.id(), two.id());
}

TEST_F(ActorsTest, CopiesOfAHandleAreTheSameActor) {
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>(1);
  const auto copy = counter;
  copy.call<&Counter::add>(1).get();
  EXPECT_EQ(counter.call<&Counter::value>().get(), 2);
  EXPECT_EQ(counter.id(), copy.id());
}

TEST_F(ActorsTest, TenThousandCallsOfOneThreadArriveInTheirOrder) {
  Runtime runtime;
  const auto ledger = runtime.spawn<Ledger>();
  for (int i = 0; i < 10'000; ++i) [[maybe_unused]] const auto dropped = ledger.call<&Ledger::note>(0, i);
  EXPECT_TRUE(ledger.call<&Ledger::in_order>().get());
  EXPECT_EQ(ledger.call<&Ledger::noted>(0).get(), 10'000);
}

TEST_F(ActorsTest, CallsOfFourThreadsEachArriveInTheirThreadsOrder) {
  Runtime runtime;
  const auto ledger = runtime.spawn<Ledger>();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&ledger, thread] {
      for (int i = 0; i < 5000; ++i) {
        const auto noted = ledger.call<&Ledger::note>(thread, i);
        if (i % 100 == 0) noted.get();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(ledger.call<&Ledger::in_order>().get());
  for (int thread = 0; thread < 4; ++thread) EXPECT_EQ(ledger.call<&Ledger::noted>(thread).get(), 5000);
}

TEST_F(ActorsTest, AnActorRunsOneCallAtATime) {
  Runtime runtime;
  const auto alone = runtime.spawn<Alone>();
  std::vector<std::thread> threads;
  std::atomic<int> overlaps = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) overlaps += alone.call<&Alone::enter>().get() != 1;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(overlaps, 0);
}

TEST_F(ActorsTest, EightActorsServeInterleavedCalls) {
  Runtime runtime;
  std::vector<Actor<Counter>> counters;
  for (int i = 0; i < 8; ++i) counters.push_back(runtime.spawn<Counter>(0));
  std::vector<Ref<int>> results;
  for (int round = 1; round <= 1000; ++round) {
    for (const auto& counter : counters) results.push_back(counter.call<&Counter::add>(1));
  }
  for (std::size_t i = 0; i < results.size(); ++i) ASSERT_EQ(results[i].get(), static_cast<int>(i / 8 + 1));
}

TEST_F(ActorsTest, ThreadsThatShareNothingButTheRuntimeEachHaveTheirActors) {
  Runtime runtime;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      const auto counter = runtime.spawn<Counter>(0);
      for (int i = 1; i <= 2000; ++i) wrong += counter.call<&Counter::add>(1).get() != i;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ActorsTest, ATemporaryHandlesCallIsAnsweredAfterTheHandleIsGone) {
  Runtime runtime;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(runtime.spawn<Counter>(i).call<&Counter::value>().get(), i);
}

}  // namespace
}  // namespace pharos::cluster::actors
