// Programs that share a cluster, on the simulator's clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "machines.hpp"
#include "seed.hpp"
#include "simulator/cluster.hpp"

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr std::int32_t kFlood = 400;  // number of tasks of 100 ms
constexpr Duration kLimit = 1h;
constexpr Duration kWaitMax = 150ms;

std::int32_t hold(std::int64_t microseconds) {
  sleep(std::chrono::microseconds{microseconds});
  return 1;
}

class Seat {
 public:
  std::int32_t sit() const { return 1; }
};

void flood(Runtime& runtime, std::int32_t tasks, std::chrono::microseconds each) {
  std::vector<Ref<std::int32_t>> all;
  for (std::int32_t i = 0; i < tasks; ++i) all.push_back(runtime.submit<&hold>(std::int64_t{each.count()}));
  for (auto& one : all) static_cast<void>(one.get());
}

class Shares : public SeededTest {};

TEST_F(Shares, AShortTaskBehindAnotherProgramsQueueWaitsForOneTaskAtMost) {
  Cluster cluster{seed_, {.machines = machines({4})}};
  const TimePoint begin = cluster.world().now();
  Duration longest{};
  TimePoint flooded;
  cluster.start_driver("flood", 0, [&](Runtime& runtime) {
    flood(runtime, kFlood, 100ms);
    flooded = now();
  });
  cluster.start_driver("short", 0, [&](Runtime& runtime) {
    for (int i = 0; i < 12; ++i) {
      sleep(437ms);
      const TimePoint before = now();
      static_cast<void>(runtime.submit<&hold>(std::int64_t{1000}).get());
      longest = std::max(longest, now() - before);
      ASSERT_EQ(flooded, TimePoint{}) << "the flood is over: nothing was measured";
    }
  });
  ASSERT_TRUE(cluster.run_until([&] { return cluster.all_drivers_ended(); }, kLimit)) << cluster.wrong();
  EXPECT_LE(longest, kWaitMax);
  EXPECT_LE(flooded - begin, 10s * 11 / 10) << "it has hardly been held up";
  std::printf("at most %lld us\n", static_cast<long long>(longest / 1us));
}

TEST_F(Shares, AnActorThatAsksForACpuWaitsForOneTaskAtMost) {
  Cluster cluster{seed_, {.machines = machines({4})}};
  Duration longest{};
  bool flooded = false;
  cluster.start_driver("flood", 0, [&](Runtime& runtime) {
    flood(runtime, kFlood, 100ms);
    flooded = true;
  });
  cluster.start_driver("actors", 0, [&](Runtime& runtime) {
    for (int i = 0; i < 4; ++i) {
      sleep(437ms);
      const TimePoint before = now();
      const auto seat = runtime.spawn<Seat>({.cpus = 1});
      static_cast<void>(seat.call<&Seat::sit>().get());
      longest = std::max(longest, now() - before);
      ASSERT_FALSE(flooded) << "the flood is over: nothing was measured";
    }
  });
  ASSERT_TRUE(cluster.run_until([&] { return cluster.all_drivers_ended(); }, kLimit)) << cluster.wrong();
  EXPECT_LE(longest, kWaitMax);
  std::printf("at most %lld us\n", static_cast<long long>(longest / 1us));
}

TEST_F(Shares, AShortTaskIsServedSoonBehindQueuesOfAnotherNodesProgram) {
  Cluster cluster{seed_, {.machines = machines({2, 2})}};
  Duration longest{};
  bool flooded = false;
  cluster.start_driver("flood", 0, [&](Runtime& runtime) {
    flood(runtime, kFlood, 100ms);
    flooded = true;
  });
  cluster.start_driver("short", 1, [&](Runtime& runtime) {
    for (int i = 0; i < 12; ++i) {
      sleep(437ms);
      const TimePoint before = now();
      static_cast<void>(runtime.submit<&hold>(std::int64_t{1000}).get());
      longest = std::max(longest, now() - before);
      ASSERT_FALSE(flooded) << "the flood is over: nothing was measured";
    }
  });
  ASSERT_TRUE(cluster.run_until([&] { return cluster.all_drivers_ended(); }, kLimit)) << cluster.wrong();
  EXPECT_LE(longest, kWaitMax);
  std::printf("at most %lld us\n", static_cast<long long>(longest / 1us));
}

/// Returns when each of the programs had finished its tasks of 1 ms on four CPUs.
std::vector<Duration> times_of_short_tasks(std::uint64_t seed, int programs, std::int32_t tasks) {
  Cluster cluster{seed, {.machines = machines({4})}};
  const TimePoint begin = cluster.world().now();
  std::vector<Duration> ends;
  for (int i = 0; i < programs; ++i) {
    cluster.start_driver("program" + std::to_string(i), 0, [&](Runtime& runtime) {
      flood(runtime, tasks, 1ms);
      ends.push_back(now() - begin);
    });
  }
  EXPECT_TRUE(cluster.run_until([&] { return cluster.all_drivers_ended(); }, kLimit)) << cluster.wrong();
  return ends;
}

TEST_F(Shares, TwoProgramsOfShortTasksGoOnBesideEachOtherAndLoseNearlyNoTime) {
  const auto alone = times_of_short_tasks(seed_, 1, 8000);
  const auto ends = times_of_short_tasks(seed_, 2, 4000);
  ASSERT_EQ(alone.size(), 1u);
  ASSERT_EQ(ends.size(), 2u);
  std::printf("%lld ms alone; %lld and %lld ms\n", static_cast<long long>(alone[0] / 1ms),
              static_cast<long long>(ends[0] / 1ms), static_cast<long long>(ends[1] / 1ms));
  EXPECT_LE(ends[1], alone[0] * 11 / 10);
  EXPECT_GE(ends[0], ends[1] * 3 / 4) << "one waited for the other";
}

/// Returns how long 160 tasks of 100 ms take on four nodes with two CPUs each, beside `actors` idle actors.
Duration time_beside(std::uint64_t seed, int actors) {
  Cluster cluster{seed, {.machines = machines({2, 2, 2, 2})}};
  Duration took{};
  cluster.start_driver("program", 0, [&](Runtime& runtime) {
    std::vector<Actor<Seat>> idle;
    for (int i = 0; i < actors; ++i) idle.push_back(runtime.spawn<Seat>());
    for (const auto& each : idle) static_cast<void>(each.call<&Seat::sit>().get());
    flood(runtime, 16, 10ms);  // brings the program to each node
    const TimePoint before = now();
    flood(runtime, 160, 100ms);
    took = now() - before;
  });
  EXPECT_TRUE(cluster.run_until([&] { return cluster.all_drivers_ended(); }, kLimit)) << cluster.wrong();
  return took;
}

TEST_F(Shares, ActorsThatDoNothingKeepNoTaskFromACpu) {
  const Duration without = time_beside(seed_, 0);
  const Duration with = time_beside(seed_, 40);
  std::printf("%lld ms without, %lld ms with them\n", static_cast<long long>(without / 1ms),
              static_cast<long long>(with / 1ms));
  EXPECT_LE(with, without * 105 / 100);
  EXPECT_LE(without, 2600ms) << "8 CPUs would take 2 s";
}

TEST_F(Shares, TasksAndActorsThatHaveNoDeadlineWaitForHours) {
  Cluster cluster{seed_, {.machines = machines({1})}};
  std::vector<std::string> came;
  cluster.start_driver("long", 0, [&](Runtime& runtime) { flood(runtime, 1, 2h); });
  cluster.start_driver("task", 0, [&](Runtime& runtime) {
    sleep(1s);
    const auto result = runtime.submit<&hold>(std::int64_t{1000}).try_get();
    came.push_back(result ? "task" : result.error().message());
  });
  cluster.start_driver("actor", 0, [&](Runtime& runtime) {
    sleep(2s);
    const auto result = runtime.spawn<Seat>({.cpus = 1}).call<&Seat::sit>().try_get();
    came.push_back(result ? "actor" : result.error().message());
  });
  const TimePoint begin = cluster.world().now();
  ASSERT_TRUE(cluster.run_until([&] { return cluster.all_drivers_ended(); }, 3h)) << cluster.wrong();
  EXPECT_GE(cluster.world().now() - begin, 2h);
  EXPECT_EQ(came, (std::vector<std::string>{"actor", "task"})) << "actors have what tasks return first";
}

TEST_F(Shares, ATaskOwnDeadlineStillEndsItsWait) {
  Cluster cluster{seed_, {.machines = machines({1})}};
  Duration waited{};
  cluster.start_driver("long", 0, [&](Runtime& runtime) { flood(runtime, 1, 10s); });
  cluster.start_driver("task", 0, [&](Runtime& runtime) {
    sleep(1s);
    const TimePoint before = now();
    const auto result = runtime.submit<&hold>({.deadline = Deadline::after(2s, before)}, std::int64_t{1000}).try_get();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), ErrorCode::kDeadlineExceeded);
    waited = now() - before;
  });
  ASSERT_TRUE(cluster.run_until([&] { return cluster.all_drivers_ended(); }, kLimit)) << cluster.wrong();
  EXPECT_GE(waited, 2s);
  EXPECT_LT(waited, 2010ms);
}

}  // namespace
}  // namespace pharos::simulator
