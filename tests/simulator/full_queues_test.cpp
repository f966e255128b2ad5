#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "machines.hpp"
#include "simulator/cluster.hpp"

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kCallBytes = 64 << 10;
constexpr int kMoreThanAQueue = (72 << 20) / int{kCallBytes};

int floods_begun = 0;
int taken = 0;

class Peer {
 public:
  void take(const std::string&) { ++taken; }
  int flood(const Actor<Peer>& other, int calls) {
    ++floods_begun;
    while (floods_begun < 2) sleep(1ms);
    const std::string text(kCallBytes, 'x');
    std::vector<Ref<void>> made;
    for (int i = 0; i < calls; ++i) made.push_back(other.call<&Peer::take>(text));
    return calls;
  }
  void hold(int seconds) { sleep(std::chrono::seconds{seconds}); }
};

TEST(FullQueues, ActorsThatFloodEachOtherBothFinish) {
  floods_begun = 0;
  taken = 0;
  Cluster cluster{5, {.machines = machines({2})}};
  std::optional<Error> wrong;
  cluster.start_driver("driver", 0, [&](Runtime& runtime) {
    const auto a = runtime.spawn<Peer>();
    const auto b = runtime.spawn<Peer>();
    const auto of_a = a.call<&Peer::flood>(b, kMoreThanAQueue);
    const auto of_b = b.call<&Peer::flood>(a, kMoreThanAQueue);
    for (const auto& each : {of_a, of_b}) {
      if (const auto ended = each.try_get(Deadline::at(cluster.world().now() + 60s)); !ended) wrong = ended.error();
    }
    while (!wrong && taken < 2 * kMoreThanAQueue) sleep(1ms);
  });
  EXPECT_TRUE(cluster.run_until([&] { return cluster.all_drivers_ended(); }, 120s)) << taken;
  EXPECT_FALSE(wrong) << wrong->to_string();
  EXPECT_EQ(taken, 2 * kMoreThanAQueue);
}

TEST(FullQueues, ADeadlineBoundsTheWaitForRoomToTheMoment) {
  taken = 0;
  Cluster cluster{6, {.machines = machines({2})}};
  Duration took{};
  int made = 0;
  std::optional<Error> why;
  cluster.start_driver("driver", 0, [&](Runtime& runtime) {
    const auto actor = runtime.spawn<Peer>();
    actor.call<&Peer::hold>(0).get();  // waits until the actor has started
    const auto held = actor.call<&Peer::hold>(30);
    const std::string text(kCallBytes, 'x');
    while (const auto each = actor.try_call<&Peer::take>(text)) ++made;
    // The worker reads some calls ahead, which makes room: several calls may return at once before one has to wait.
    for (int i = 0; i < 1000 && took < 200ms; ++i) {
      const TimePoint began = cluster.world().now();
      const auto late = actor.call<&Peer::take>({.deadline = Deadline::at(began + 200ms)}, text);
      took = cluster.world().now() - began;
      if (took < 200ms) continue;
      if (const auto ended = late.try_get(); !ended) why = ended.error();
    }
    held.get();
    while (taken < made) sleep(1ms);
  });
  EXPECT_TRUE(cluster.run_until([&] { return cluster.all_drivers_ended(); }, 120s)) << taken;
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(why->outcome(), Outcome::kNotStarted);
  EXPECT_GE(took, 200ms);
  EXPECT_LT(took, 201ms);
  EXPECT_EQ(taken, made);
}

}  // namespace
}  // namespace pharos::simulator
