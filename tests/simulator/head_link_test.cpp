// The head's machine, or another one, is cut off from all others for a while.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <pharos/pharos.hpp>

#include "machines.hpp"
#include "simulator/cluster.hpp"

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kCutSeeds = 10;

/// An actor whose calls return the next number and the incarnation that ran the call.
class Sequence {
 public:
  std::pair<std::int32_t, std::uint32_t> take() { return {++last_, context().incarnation}; }
  std::size_t measure(const Bytes& bytes) { return bytes.size(); }

 private:
  std::int32_t last_ = 0;
};

std::int32_t take_long(std::int32_t n) {
  sleep(4s);
  return n;
}

Bytes make_bytes(std::size_t size) {
  return Bytes{std::string(size, 'a')};
}

/// An actor that makes objects on its node and reads objects of other nodes.
class Desk {
 public:
  Bytes make(std::size_t size) { return make_bytes(size); }
  std::size_t measure(const Bytes& bytes) { return bytes.size(); }
};

/// The results that a program saw.
struct Seen {
  std::string wrong;
  std::uint32_t newest = 0;
  bool ended = false;
};

/// For `time`, calls four actors ten times a second, spread over the nodes that have a desk left, and runs tasks that
/// are not retried. No call and no task may fail or run twice.
void work_for(Runtime& runtime, Duration time, Seen& seen) {
  const auto& clock = World::of_this_program();
  const TimePoint end = clock.now() + time;
  std::vector<Actor<Sequence>> actors;
  for (int i = 0; i < 4; ++i) actors.push_back(runtime.spawn<Sequence>({.resources = {{"desk", 1}}, .spread = true}));
  std::vector<std::vector<Ref<std::pair<std::int32_t, std::uint32_t>>>> calls(actors.size());
  std::vector<Ref<std::int32_t>> tasks;
  std::vector<Ref<std::size_t>> sizes;
  while (clock.now() < end && Cluster::alive()) {
    for (std::size_t i = 0; i < actors.size(); ++i) calls[i].push_back(actors[i].call<&Sequence::take>());
    if (calls[0].size() % 20 == 1) tasks.push_back(runtime.submit<&take_long>(static_cast<std::int32_t>(tasks.size())));
    if (calls[0].size() % 30 == 1) {
      sizes.push_back(actors[1].call<&Sequence::measure>(runtime.put(make_bytes(150'000))));
      sizes.push_back(actors[2].call<&Sequence::measure>(runtime.submit<&make_bytes>(std::size_t{150'000})));
    }
    sleep(100ms);
  }
  const auto check = [&](const auto& ref, const auto& right) {
    const auto result = ref.try_get();
    if (!Cluster::alive()) return;
    if (!result) {
      seen.wrong += result.error().to_string() + '\n';
    } else if (!right(*result)) {
      seen.wrong += "a wrong result\n";
    }
  };
  for (const auto& of_one : calls) {
    std::int32_t number = 0;
    for (const auto& call : of_one) {
      ++number;
      check(call, [&](const auto& got) {
        seen.newest = std::max(seen.newest, got.second);
        return got.first == number;
      });
    }
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    check(tasks[i], [&](std::int32_t got) { return got == static_cast<std::int32_t>(i); });
  }
  for (const auto& size : sizes) check(size, [](std::size_t got) { return got == 150'000; });
  if (Cluster::alive()) seen.ended = true;
}

class HeadLink : public ::testing::TestWithParam<bool> {
 protected:
  testing::ClusterOptions three_nodes() const { return {.machines = machines({2, 2, 2}), .keeps_records = GetParam()}; }
  static bool knows(Cluster& cluster, std::size_t place) {
    return cluster.host(0).membership()->head()->knows(cluster.host(place).node_id());
  }
  /// Returns the time until the head has given the node up; about `limit` if it does not.
  static Duration time_until_lost(Cluster& cluster, std::size_t place, Duration limit) {
    const TimePoint begin = cluster.world().now();
    cluster.run_until([&] { return !knows(cluster, place); }, limit);
    return cluster.world().now() - begin;
  }
  static void expect_nothing_left(Cluster& cluster) {
    cluster.run_for(30s);
    EXPECT_EQ(cluster.wrong(), "");
    EXPECT_EQ(cluster.leftovers(), "");
  }
};

TEST_P(HeadLink, NothingIsLostWhenTheHeadsMachineIsCutOff) {
  for (std::uint64_t seed = 1; seed <= kCutSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Cluster cluster{seed, three_nodes()};
    std::vector<Seen> seen(4);  // one program on each node, and one on a machine of its own
    cluster.run_for(1s);
    for (std::size_t place = 0; place < seen.size(); ++place) {
      cluster.start_driver("driver" + std::to_string(place + 1), place,
                           [&seen, place](Runtime& runtime) { work_for(runtime, 45s, seen[place]); });
    }
    cluster.run_for(5s + cluster.lots().between(Duration{0}, 1s));
    const Duration time = std::vector<Duration>{9s, 10200ms, 10500ms, 11s, 14s, 20s, 35s}[seed % 7];
    cluster.cut_off(0, time);
    cluster.run_until([&] { return cluster.all_drivers_ended(); }, 200s);
    for (const Seen& each : seen) {
      EXPECT_EQ(each.wrong, "");
      EXPECT_EQ(each.newest, 1U) << "an actor was started again";
      EXPECT_TRUE(each.ended);
    }
    for (std::size_t place : {1, 2}) EXPECT_TRUE(knows(cluster, place));
    expect_nothing_left(cluster);
    if (HasFailure()) return;
  }
}

TEST_P(HeadLink, OneNodeThatIsCutOffIsGivenUpAfterTenSecondsAndHearsSo) {
  for (std::uint64_t seed = 1; seed <= kCutSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Cluster cluster{seed, three_nodes()};
    cluster.run_for(1s + cluster.lots().between(Duration{0}, 1s));
    cluster.cut_off(1, 20s);
    const Duration time = time_until_lost(cluster, 1, 15s);
    EXPECT_GE(time, 8500ms);
    EXPECT_LE(time, 10500ms);
    EXPECT_TRUE(cluster.host(1).process().alive());
    cluster.run_until([&] { return !cluster.host(1).process().alive(); }, 15s);
    EXPECT_TRUE(cluster.host(1).given_up());
    EXPECT_TRUE(knows(cluster, 2));
  }
}

TEST_P(HeadLink, NodesThatAreCutOffAtDifferentTimesAreGivenUpOneByOne) {
  Cluster cluster{1, three_nodes()};
  cluster.run_for(1s);
  cluster.cut_off(1, 30s);
  cluster.run_for(4s);
  cluster.cut_off(2, 30s);
  EXPECT_LE(time_until_lost(cluster, 1, 15s), 6500ms);
  EXPECT_TRUE(knows(cluster, 2));
  EXPECT_LE(time_until_lost(cluster, 2, 15s), 5s);
  cluster.run_until([&] { return cluster.host(1).given_up() && cluster.host(2).given_up(); }, 40s);
  EXPECT_TRUE(cluster.host(1).given_up() && cluster.host(2).given_up());
}

TEST_P(HeadLink, AnOnlyNodeIsGivenUpAfterTenSeconds) {
  Cluster cluster{1, {.machines = machines({2, 2}), .keeps_records = GetParam()}};
  cluster.run_for(1s);
  cluster.cut_off(0, 20s);
  EXPECT_LE(time_until_lost(cluster, 1, 15s), 10500ms);
}

TEST_P(HeadLink, ANodeThatIsNotBackTenSecondsAfterAnotherOneIsGivenUp) {
  Cluster cluster{1, three_nodes()};
  cluster.run_for(1s);
  cluster.cut_off(0, 20s);
  cluster.run_for(15s);
  cluster.host(2).process().kill("is killed");
  EXPECT_TRUE(knows(cluster, 2)) << "nobody knows yet";
  const Duration time = time_until_lost(cluster, 2, 30s);
  EXPECT_GE(time, 5s + 9s);
  EXPECT_LE(time, 5s + 4s + 10500ms);
  EXPECT_TRUE(knows(cluster, 1));
}

TEST_P(HeadLink, WhoHearsNothingForAMinuteMoreGivesAllNodesUp) {
  Cluster cluster{1, three_nodes()};
  cluster.run_for(1s);
  cluster.cut_off(0, 100s);
  const Duration time = time_until_lost(cluster, 1, 100s);
  EXPECT_GE(time, 69s);
  EXPECT_LE(time, 72s);
  EXPECT_FALSE(knows(cluster, 2));
  cluster.run_until([&] { return cluster.host(1).given_up() && cluster.host(2).given_up(); }, 60s);
  EXPECT_TRUE(cluster.host(1).given_up() && cluster.host(2).given_up());
}

TEST_P(HeadLink, ObjectsOfANodeThatIsCutOffKeepNobodyFromThoseOfAnother) {
  Cluster cluster{1, three_nodes()};
  cluster.run_for(1s);
  bool is_cut_off = false;
  Duration time{};
  cluster.start_driver("driver", 0, [&](Runtime& runtime) {
    const auto desk_at = [&](std::size_t place) {
      return runtime.spawn<Desk>({.node = cluster.host(place).node_id()});
    };
    const auto made_at = [&](std::size_t place) {
      const auto made = desk_at(place).call<&Desk::make>(std::size_t{150'000});
      wait(std::vector{made});
      return made;
    };
    constexpr int kMany = 8;
    std::vector<Ref<Bytes>> cut_off;
    std::vector<Actor<Desk>> readers;
    for (int i = 0; i < kMany; ++i) cut_off.push_back(made_at(2));
    for (int i = 0; i < kMany; ++i) readers.push_back(desk_at(0));
    const auto other = made_at(1);
    is_cut_off = true;
    sleep(100ms);
    std::vector<Ref<std::size_t>> sizes;
    for (std::size_t i = 0; i < kMany; ++i) sizes.push_back(readers[i].call<&Desk::measure>(cut_off[i]));
    sleep(1s);
    const auto& clock = World::of_this_program();
    const TimePoint begin = clock.now();
    EXPECT_EQ(other.get().size(), 150'000U);
    time = clock.now() - begin;
  });
  cluster.run_until([&] { return is_cut_off; }, 30s);
  cluster.cut_off(2, 60s);
  cluster.run_until([&] { return cluster.all_drivers_ended(); }, 200s);
  EXPECT_GT(time, 0s);
  EXPECT_LT(time, 4s);
}

INSTANTIATE_TEST_SUITE_P(Heads, HeadLink, ::testing::Bool(),
                         [](const auto& chosen) { return chosen.param ? "ThatKeepRecords" : "WithoutRecords"; });

}  // namespace
}  // namespace pharos::simulator
