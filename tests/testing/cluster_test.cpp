#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>
#include <pharos/testing/testing.hpp>

namespace pharos::testing {
namespace {

using namespace std::chrono_literals;

// ---- What the simulated programs are made of: ordinary tasks and actors

int add(int a, int b) {
  return a + b;
}

int add_slowly(int a, int b) {
  sleep(10s);
  return a + b;
}

std::vector<double> count_to(int n) {
  std::vector<double> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 1.0);
  return all;
}

double sum(const std::vector<double>& all) {
  return std::accumulate(all.begin(), all.end(), 0.0);
}

struct TooMuch : std::runtime_error {
  TooMuch() : std::runtime_error{"too much"} {}
};

class Counter {
 public:
  explicit Counter(int start = 0) : count_{start} {}
  int add(int n) { return count_ += n; }
  int count() const { return count_; }
  std::uint32_t incarnation() const { return context().incarnation; }
  Async<int> add_later(int n) {
    co_await async::sleep(1s);
    co_return count_ += n;
  }
  /// Runs until somebody kills it.
  void watch() {
    while (!stopping()) sleep(1s);
  }

  // NOLINTNEXTLINE(readability-identifier-naming): Pharos's
  static constexpr auto pharos_methods = methods<&Counter::add, &Counter::count>;

 private:
  int count_;
};

int take_all(const Queue<int>& queue) {
  int taken = 0;
  for (int i = 0; i < 10; ++i) taken += queue.get().get();
  return taken;
}

class Clusters : public ::testing::Test {
 protected:
  static ClusterOptions three() {
    return {.machines = {{.cpus = 2, .resources = {{"first", 1}}},
                         {.cpus = 2, .resources = {{"desk", 4}}},
                         {.cpus = 2, .resources = {{"desk", 4}}}}};
  }
  static Actor<Counter> at_a_desk(Runtime& runtime, ActorOptions options = {}) {
    options.resources = {{"desk", 1}};
    return runtime.spawn<Counter>(options, 0);
  }
  template <class Thrown, class Run>
  static std::string message_of(const Run& run) {
    try {
      run();
    } catch (const Thrown& thrown) {
      return thrown.what();
    } catch (const std::exception& other) {
      ADD_FAILURE() << "another exception was thrown: " << other.what();
      return "";
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }
};

// ---- What runs

TEST_F(Clusters, RunTasksActorsGroupsQueuesCoroutinesAndLargeValues) {
  Cluster cluster{7, three()};
  bool done = false;
  cluster.run([&](Runtime& runtime) {
    EXPECT_EQ(runtime.submit<&add>(1, 2).get(), 3);
    EXPECT_EQ(runtime.submit<&sum>(runtime.submit<&count_to>(100'000)).get(), 5'000'050'000.0);
    const auto counter = runtime.spawn<Counter>({.name = "counter"}, 10);
    for (int i = 0; i < 100; ++i) static_cast<void>(counter.call<&Counter::add>(1));
    EXPECT_EQ(counter.call<&Counter::add_later>(1).get(), 111);
    EXPECT_EQ(runtime.actor<Counter>("counter").call<&Counter::count>().get(), 111);
    const auto group = runtime.spawn_group<Counter>({.size = 4}, 1);
    EXPECT_EQ(get(group.call_all<&Counter::add>(1)), (std::vector<int>{2, 2, 2, 2}));
    const auto queue = Queue<int>::make(runtime, {.capacity = 3});
    const auto taken = runtime.submit<&take_all>(queue);
    for (int i = 1; i <= 10; ++i) queue.put(i).get();
    EXPECT_EQ(taken.get(), 55);
    EXPECT_EQ(runtime.nodes().size(), 3U);
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST_F(Clusters, HaveATimeOfTheirOwn) {
  Cluster cluster{7, three()};
  const auto began = std::chrono::steady_clock::now();
  cluster.run([&](Runtime& runtime) {
    const TimePoint before = now();
    sleep(30min);
    EXPECT_GE(now() - before, 30min);
    const auto slow = runtime.submit<&add_slowly>(1, 2);
    message_of<DeadlineExceeded>([&] { slow.get(Deadline::in(5s)); });
    EXPECT_LT(now() - before, 30min + 6s);
    EXPECT_EQ(slow.get(), 3);
    EXPECT_GE(now() - before, 30min + 10s);
  });
  EXPECT_GE(cluster.elapsed(), 30min);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 1min);
}

TEST_F(Clusters, TheSameSeedIsTheSameRunAndAnotherSeedIsAnotherOne) {
  const auto hash_of = [&](std::uint64_t seed) {
    Cluster cluster{seed, three()};
    cluster.inject({.worker_kills = 3, .connection_cuts = 3, .lost_messages_one_in = 20});
    cluster.run([](Runtime& runtime) {
      const auto counter = at_a_desk(runtime, {.max_restarts = -1, .max_task_retries = -1});
      for (int i = 0; i < 100; ++i) static_cast<void>(counter.call<&Counter::add>(1));
      counter.call<&Counter::count>().get();
    });
    return cluster.hash();
  };
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const std::uint64_t hash = hash_of(seed);
    EXPECT_EQ(hash_of(seed), hash) << seed;
    hashes.insert(hash);
  }
  EXPECT_EQ(hashes.size(), 10U);
}

TEST_F(Clusters, ProgramsShareAnActorByItsName) {
  Cluster cluster{3, three()};
  cluster.start("maker", [](Runtime& runtime) {
    const auto counter = runtime.spawn<Counter>({.name = "shared", .name_space = "town", .detached = true}, 0);
    EXPECT_EQ(counter.call<&Counter::add>(1).get(), 1);
  });
  cluster.start("user", [](Runtime& runtime) {
    sleep(5s);
    EXPECT_EQ(runtime.actor<Counter>("shared", "town").call<&Counter::add>(1).get(), 2);
  });
  cluster.run();
  EXPECT_GE(cluster.elapsed(), 5s);
}

// ---- What goes wrong in the test's own code

TEST_F(Clusters, RunThrowsWhatAProgramThrows) {
  Cluster cluster{1, three()};
  EXPECT_EQ(message_of<TooMuch>([&] { cluster.run([](Runtime&) { throw TooMuch{}; }); }), "too much");
  EXPECT_FALSE(Cluster::alive());
}

TEST_F(Clusters, AProgramThatWaitsForEverIsNamedWithWhatItWaitsFor) {
  Cluster cluster{1, three()};
  cluster.start("patient", [](Runtime& runtime) {
    const auto counter = runtime.spawn<Counter>({.name = "watchman"}, 0);
    counter.call<&Counter::watch>().get();
  });
  const std::string told = message_of<DeadlineExceeded>([&] { cluster.run(1min); });
  EXPECT_NE(told.find("programs still run"), std::string::npos) << told;
  EXPECT_NE(told.find("watchman"), std::string::npos) << told;
}

TEST_F(Clusters, RefuseWhatMakesNoSense) {
  EXPECT_NE(message_of<InvalidArgument>([] {
              Cluster{1, {.machines = {}}};
            }).find("at least one machine"),
            std::string::npos);
  EXPECT_NE(message_of<InvalidArgument>([] {
              Cluster{1, {.machines = {{.resources = {{"desk", -1}}}}}};
            }).find("desk"),
            std::string::npos);
  Cluster cluster{1, three()};
  const auto nothing = [](Runtime&) {};
  EXPECT_NE(message_of<InvalidArgument>([&] { cluster.start("a", nothing, 3); }).find("no machine 3"),
            std::string::npos);
  EXPECT_NE(message_of<InvalidArgument>([&] { cluster.kill_machine(9); }).find("no machine 9"), std::string::npos);
  cluster.start("a", nothing);
  EXPECT_NE(message_of<InvalidArgument>([&] { cluster.start("a", nothing); }).find("\"a\" already"), std::string::npos);
  EXPECT_NE(message_of<FailedPrecondition>([&] { cluster.restart_head(1s); }).find("keeps_records"), std::string::npos);
  EXPECT_NE(message_of<FailedPrecondition>([&] { cluster.inject({.head_restarts = 1}); }).find("keeps_records"),
            std::string::npos);
  cluster.run();
}

// ---- Faults at moments that the test chooses

TEST_F(Clusters, AKilledActorIsRestartedIfItMayBe) {
  Cluster cluster{5, three()};
  cluster.run([&](Runtime& runtime) {
    const auto counter = at_a_desk(runtime, {.max_restarts = 1, .max_task_retries = -1});
    EXPECT_EQ(counter.call<&Counter::add>(7).get(), 7);
    EXPECT_EQ(counter.call<&Counter::incarnation>().get(), 1U);
    cluster.kill_worker_of(counter);
    sleep(1s);
    EXPECT_EQ(counter.call<&Counter::count>().get(), 0);
    EXPECT_EQ(counter.call<&Counter::incarnation>().get(), 2U);
    cluster.kill_worker_of(counter);
    sleep(1s);
    message_of<ActorDied>([&] { counter.call<&Counter::count>().get(); });
    EXPECT_EQ(cluster.machine_of(counter), Cluster::kItsOwn);
  });
}

TEST_F(Clusters, ACallThatNeverEndsEndsWithItsProcess) {
  Cluster cluster{5, three()};
  cluster.run([&](Runtime& runtime) {
    const auto counter = at_a_desk(runtime);
    const auto watching = counter.call<&Counter::watch>();
    sleep(1min);
    EXPECT_FALSE(watching.ready());
    cluster.kill_worker_of(counter);
    message_of<ActorDied>([&] { watching.get(Deadline::in(1s)); });
  });
}

TEST_F(Clusters, AMethodIsFoundByItsNameWhileProcessesDieAndMessagesAreLost) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Cluster cluster{seed, three()};
    cluster.inject({.worker_kills = 5, .connection_cuts = 5, .lost_messages_one_in = 20});
    int answers = 0;
    cluster.run([&](Runtime& runtime) {
      const auto made = at_a_desk(runtime, {.name = "counter", .max_restarts = -1});
      const ForeignActor counter = runtime.foreign_actor("counter");
      const auto kept = counter.method<int(int)>("add");
      for (int i = 0; i < 20; ++i) {
        const auto found = counter.method<int(int)>("add");  // asked again if the process dies meanwhile
        for (const auto& add : {kept, found}) {
          const auto sum = add.call(1).try_get();
          if (sum) {
            ++answers;
          } else {
            EXPECT_EQ(sum.error().code(), ErrorCode::kActorDied) << sum.error().to_string();
          }
        }
        sleep(10ms);
      }
    });
    EXPECT_GE(answers, 30) << seed;
  }
}

TEST_F(Clusters, AMachineThatGoesDownTakesItsActorsAndProgramsAlong) {
  Cluster cluster{5, three()};
  bool survived = false;
  cluster.start(
      "at the machine",
      [&](Runtime&) {
        sleep(1h);
        survived = true;
      },
      1);
  cluster.start("elsewhere", [&](Runtime& runtime) {
    std::vector<Actor<Counter>> counters;
    for (int i = 0; i < 8; ++i) counters.push_back(at_a_desk(runtime, {.max_restarts = -1, .max_task_retries = -1}));
    std::set<std::size_t> machines;
    for (const auto& each : counters) {
      each.call<&Counter::count>().get();
      machines.insert(cluster.machine_of(each));
    }
    EXPECT_EQ(machines, (std::set<std::size_t>{1, 2}));
    // Only the actors at the other machine have a desk from now on.
    std::vector<Actor<Counter>> left;
    for (const auto& each : counters) {
      if (cluster.machine_of(each) == 2) left.push_back(each);
    }
    cluster.kill_machine(1);
    sleep(1min);
    for (const auto& each : left) EXPECT_EQ(each.call<&Counter::add>(1).get(), 1);
    EXPECT_EQ(runtime.nodes().size(), 2U);
  });
  cluster.run();
  EXPECT_FALSE(survived);
  EXPECT_LT(cluster.elapsed(), 10min);
}

TEST_F(Clusters, AMachineThatStandsStillOrIsCutOffAnswersLater) {
  Cluster cluster{5, three()};
  cluster.run([&](Runtime& runtime) {
    const auto counter = at_a_desk(runtime);
    EXPECT_EQ(counter.call<&Counter::add>(1).get(), 1);
    for (const bool stops : {true, false}) {
      const TimePoint before = now();
      if (stops) {
        cluster.stop_machine(cluster.machine_of(counter), 3s);
      } else {
        cluster.cut_off(cluster.machine_of(counter), 3s);
      }
      sleep(1ms);
      static_cast<void>(counter.call<&Counter::add>(1).get());
      EXPECT_GE(now() - before, 3s) << stops;
      EXPECT_LT(now() - before, 5s) << stops;
    }
    EXPECT_EQ(counter.call<&Counter::count>().get(), 3);
  });
}

TEST_F(Clusters, AProgramThatIsKilledEndsAndItsActorsWithIt) {
  Cluster cluster{5, three()};
  cluster.start("victim", [&](Runtime& runtime) {
    const auto counter = runtime.spawn<Counter>({.name = "its", .name_space = "town"}, 0);
    counter.call<&Counter::count>().get();
    sleep(1h);
    ADD_FAILURE() << "the program was not killed";
  });
  cluster.start("witness", [&](Runtime& runtime) {
    sleep(1s);
    EXPECT_EQ(runtime.actor<Counter>("its", "town").call<&Counter::count>().get(), 0);
    cluster.kill_program("victim");
    sleep(5s);
    message_of<NotFound>([&] { runtime.actor<Counter>("its", "town"); });
  });
  cluster.run();
  EXPECT_LT(cluster.elapsed(), 1min);
}

TEST_F(Clusters, AHeadThatKeepsRecordsComesBack) {
  ClusterOptions options = three();
  options.keeps_records = true;
  Cluster cluster{5, options};
  cluster.run([&](Runtime& runtime) {
    const auto counter = at_a_desk(runtime, {.name = "kept"});
    EXPECT_EQ(counter.call<&Counter::add>(1).get(), 1);
    cluster.restart_head(2s);
    sleep(1ms);
    EXPECT_EQ(counter.call<&Counter::add>(1).get(), 2);  // calls do not need the head
    const TimePoint before = now();
    EXPECT_EQ(at_a_desk(runtime).call<&Counter::add>(1).get(), 1);  // a new actor waits for it
    EXPECT_GE(now() - before, 1s);
    EXPECT_EQ(runtime.actor<Counter>("kept").call<&Counter::count>().get(), 2);
  });
}

TEST_F(Clusters, ADrainedMachineHasNoActorsLeft) {
  Cluster cluster{5, three()};
  cluster.run([&](Runtime& runtime) {
    const auto counter = at_a_desk(runtime, {.max_restarts = -1, .max_task_retries = -1});
    counter.call<&Counter::count>().get();
    const std::size_t before = cluster.machine_of(counter);
    cluster.drain(before, 10s);
    sleep(1min);
    counter.call<&Counter::count>().get();
    EXPECT_NE(cluster.machine_of(counter), before);
    EXPECT_NE(cluster.machine_of(counter), Cluster::kItsOwn);
  });
}

// ---- Faults at moments that the seed draws

TEST_F(Clusters, LostMessagesAreSentAgainAndCountedOnce) {
  for_each_seed({.count = 30, .failed = [] { return HasFailure(); }}, [](std::uint64_t seed) {
    Cluster cluster{seed, three()};
    cluster.inject({.connection_cuts = 5, .lost_messages_one_in = 15});
    cluster.run([](Runtime& runtime) {
      const auto counter = at_a_desk(runtime);
      std::vector<Ref<int>> all;
      for (int i = 0; i < 100; ++i) all.push_back(counter.call<&Counter::add>(1));
      for (int i = 0; i < 100; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)].get(), i + 1);
    });
  });
}

// A test that cannot fail shows nothing: tasks without retries are lost with their messages. (Calls of an actor are
// not: both ends know which of them have arrived.)
TEST_F(Clusters, TasksWithoutRetriesAreLostInSomeSeed) {
  std::size_t lost = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Cluster cluster{seed, three()};
    cluster.inject({.lost_messages_one_in = 15});
    cluster.run([&](Runtime& runtime) {
      std::vector<Ref<int>> all;
      for (int i = 0; i < 100; ++i) all.push_back(runtime.submit<&add>(i, 1));
      for (const auto& each : all) lost += each.try_get() ? 0 : 1;
    });
  }
  EXPECT_GT(lost, 0U);
}

TEST_F(Clusters, WhateverStrikesAProgramEndsWithTheResultOrAnError) {
  std::size_t right = 0;
  std::size_t failed = 0;
  for_each_seed({.count = 100, .failed = [] { return HasFailure(); }}, [&](std::uint64_t seed) {
    ClusterOptions options = three();
    options.keeps_records = seed % 2 == 0;
    Cluster cluster{seed, options};
    Faults faults = cluster.draw_faults();
    faults.long_silence = seed % 10 == 0;
    cluster.inject(faults);
    cluster.start("adder", [&](Runtime& runtime) {
      std::vector<Ref<int>> all;
      for (int i = 0; i < 50; ++i) all.push_back(runtime.submit<&add>({.max_retries = -1}, i, 1));
      for (int i = 0; i < 50; ++i) {
        const auto sum = all[static_cast<std::size_t>(i)].try_get();
        if (!Cluster::alive()) return;
        ++(sum ? right : failed);
        if (sum) {
          EXPECT_EQ(*sum, i + 1);
        }
      }
    });
    try {
      cluster.run();
    } catch (const Unavailable&) {
      EXPECT_TRUE(faults.head_kill || faults.node_end) << "a program can always join while there is a head";
    }
  });
  EXPECT_GT(right, 50U * failed) << failed << " failed";
}

}  // namespace
}  // namespace pharos::testing
