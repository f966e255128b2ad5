#include <unistd.h>

#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "thread_state.hpp"

namespace pharos::cluster::start_stop {
namespace {

using namespace std::chrono_literals;

int twice(int value) {
  return 2 * value;
}

class Counter {
 public:
  int add(int amount) { return value_ += amount; }

 private:
  int value_ = 0;
};

void expect_works(Runtime& runtime) {
  EXPECT_EQ(runtime.submit<&twice>(21).get(), 42);
  EXPECT_EQ(runtime.spawn<Counter>().call<&Counter::add>(3).get(), 3);
}

using StartStopTest = ClusterTest;

TEST_F(StartStopTest, ARuntimeThatNobodyUsesLeavesNothing) {
  const Runtime runtime;
}

TEST_F(StartStopTest, WhileItLivesItHasOneKeeperOneNodeAndOneZygote) {
  Runtime runtime;
  expect_works(runtime);
  census().wait_for(Part::kKeeper, 1);
  census().wait_for(Part::kNode, 1);
  census().wait_for(Part::kZygote, 1);
  EXPECT_TRUE(runtime.address().starts_with("unix:" + census().folder().string())) << runtime.address();
  EXPECT_TRUE(static_cast<bool>(runtime.job()));
}

TEST_F(StartStopTest, NothingIsLeftTheMomentTheRuntimeHasEnded) {
  {
    Runtime runtime;
    expect_works(runtime);
  }
  census().expect_nothing_left(0ms);
}

TEST_F(StartStopTest, ARuntimeLivesInAThreadThatIsNotTheFirst) {
  std::thread{[] {
    Runtime runtime;
    expect_works(runtime);
  }}.join();
}

TEST_F(StartStopTest, ARuntimeMayEndInAnotherThreadThanItBegan) {
  std::optional<Runtime> runtime{std::in_place};
  expect_works(*runtime);
  std::thread{[&] { runtime.reset(); }}.join();
}

TEST_F(StartStopTest, ARuntimeOutlivesTheThreadThatMadeIt) {
  std::optional<Runtime> runtime;
  pid_t maker = 0;
  std::thread{[&] {
    maker = ::gettid();
    runtime.emplace();
  }}.join();
  // The kernel sends the children of a thread their parent-death signals before it takes the thread away.
  ASSERT_TRUE(eventually([&] { return thread_is_gone(maker); }));
  expect_works(*runtime);
}

TEST_F(StartStopTest, TwoRuntimesInSequenceBothWork) {
  for (int i = 0; i < 2; ++i) {
    Runtime runtime;
    expect_works(runtime);
  }
}

TEST_F(StartStopTest, TwoRuntimesAtOnceBothWorkAndTheSecondOutlivesTheFirst) {
  std::optional<Runtime> first{std::in_place};
  Runtime second;
  expect_works(*first);
  expect_works(second);
  EXPECT_NE(first->address(), second.address());
  EXPECT_NE(first->job(), second.job());
  census().wait_for(Part::kNode, 2);
  const auto counter = second.spawn<Counter>();
  EXPECT_EQ(counter.call<&Counter::add>(1).get(), 1);
  first.reset();
  census().wait_for(Part::kNode, 1);
  EXPECT_EQ(counter.call<&Counter::add>(1).get(), 2);
  expect_works(second);
}

TEST_F(StartStopTest, FourThreadsStartAndStopRuntimesAtOnce) {
  must_end_within(60s);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([] {
      for (int i = 0; i < 5; ++i) {
        Runtime runtime;
        expect_works(runtime);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(StartStopTest, FiveHundredStartsAndStopsLeaveNothing) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr auto kMost = 200s;
#else
  constexpr auto kMost = 40s;
#endif
  must_end_within(kMost + 20s);
  { const Runtime runtime; }
  const auto before = Holdings::now();
  std::vector<std::chrono::milliseconds> starts;
  const auto all = time_of([&] {
    for (int i = 0; i < 500; ++i) {
      std::optional<Runtime> runtime;
      starts.push_back(time_of([&] { runtime.emplace(); }));
      if (i % 50 == 0) expect_works(*runtime);
    }
  });
  std::sort(starts.begin(), starts.end());
  std::cout << "500 starts and stops: " << all.count() << " ms; a start: median " << starts[250].count()
            << " ms, longest " << starts.back().count() << " ms\n";
  EXPECT_LT(all, kMost);
  census().expect_nothing_left(0ms);
  EXPECT_TRUE(eventually([&] { return Holdings::now().are_as(before); }, 2s))
      << "before: " << before << "\nafter: " << Holdings::now();
}

TEST_F(StartStopTest, AStoppedRuntimeUnderLoadLeavesNothing) {
  for (int i = 0; i < 10; ++i) {
    Runtime runtime;
    std::vector<Actor<Counter>> actors;
    for (int j = 0; j < 4; ++j) actors.push_back(runtime.spawn<Counter>());
    for (int j = 0; j < 1000; ++j) {
      for (const auto& actor : actors) [[maybe_unused]] const auto dropped = actor.call<&Counter::add>(1);
      [[maybe_unused]] const auto dropped = runtime.submit<&twice>(j);
    }
  }
}

TEST_F(StartStopTest, ProgramArgumentsChooseTheClusterToJoin) {
  Runtime cluster;
  std::string program = "program";
  std::string address = "--pharos-address=" + cluster.address();
  std::string mine = "--mine=1";
  char* arguments[] = {program.data(), mine.data(), address.data(), nullptr};
  Runtime joined{3, arguments};
  EXPECT_EQ(joined.address(), cluster.address());
  expect_works(joined);
}

TEST_F(StartStopTest, ASecondRuntimeThatJoinsSharesTheClusterAndItsEndLeavesTheFirstAlone) {
  Runtime cluster;
  const auto counter = cluster.spawn<Counter>();
  EXPECT_EQ(counter.call<&Counter::add>(1).get(), 1);
  {
    Runtime joined{RuntimeOptions{.address = cluster.address(), .token_file = {}, .listen = {}}};
    expect_works(joined);
    EXPECT_NE(joined.job(), cluster.job());
    census().wait_for(Part::kNode, 1);
    census().wait_for(Part::kZygote, 2);
  }
  census().wait_for(Part::kZygote, 1);
  EXPECT_EQ(counter.call<&Counter::add>(1).get(), 2);
  expect_works(cluster);
}

TEST_F(StartStopTest, ARuntimeThatJoinedSeesTheClustersEndAsRuntimeStopped) {
  std::optional<Runtime> cluster{std::in_place};
  Runtime joined{RuntimeOptions{.address = cluster->address(), .token_file = {}, .listen = {}}};
  const auto counter = joined.spawn<Counter>();
  EXPECT_EQ(counter.call<&Counter::add>(1).get(), 1);
  EXPECT_LT(time_of([&] { cluster.reset(); }), 2s);
  EXPECT_TRUE(eventually([&] { return !joined.submit<&twice>(1).try_get().ok(); }, 2s));
  message_of<RuntimeStopped>([&] { joined.submit<&twice>(1).get(); });
  message_of<RuntimeStopped>([&] { counter.call<&Counter::add>(1).get(); });
}

}  // namespace
}  // namespace pharos::cluster::start_stop
