#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>
#include <vector>

#include <pharos/base/random.hpp>
#include <pharos/scheduler/hand_overs.hpp>

#include "seed.hpp"

namespace pharos::scheduler {
namespace {

using namespace std::chrono_literals;
using Turn = HandOvers::Turn;

constexpr WorkerId kOne{1};
constexpr TimePoint kBegin{};

/// Adds `count` sockets for this worker, with numbers from `first` on. Returns how many may be sent at once.
std::size_t add_all(HandOvers& all, WorkerId worker, std::uint64_t first, std::size_t count) {
  std::size_t now = 0;
  for (std::uint64_t number = first; number < first + count; ++number) {
    now += all.add(worker, number, kBegin) == Turn::kNow ? 1 : 0;
  }
  return now;
}

TEST(HandOvers, AThousandToOneWorkerGoAFewAtATimeInTheirOrder) {
  HandOvers all;
  EXPECT_EQ(add_all(all, kOne, 0, 1000), HandOvers::kOfWorkerMax);
  std::uint64_t next = HandOvers::kOfWorkerMax;
  for (int i = 0; i < 1000; ++i) {
    for (const std::uint64_t number : all.taken(kOne, kBegin)) EXPECT_EQ(number, next++);
    EXPECT_LE(all.under_way(), HandOvers::kOfWorkerMax);
  }
  EXPECT_EQ(next, 1000u);
  EXPECT_EQ(all.under_way(), 0u);
  EXPECT_EQ(all.waiting(), 0u);
}

TEST(HandOvers, AThousandToAThousandWorkersGoSixtyFourAtATimeInTheirOrder) {
  HandOvers all;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(all.add(WorkerId{i + 1}, i, kBegin), i < HandOvers::kUnderWayMax ? Turn::kNow : Turn::kLater);
  }
  std::uint64_t next = HandOvers::kUnderWayMax;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    for (const std::uint64_t number : all.taken(WorkerId{i + 1}, kBegin)) EXPECT_EQ(number, next++);
    EXPECT_LE(all.under_way(), HandOvers::kUnderWayMax);
  }
  EXPECT_EQ(next, 1000u);
}

TEST(HandOvers, WorkersThatTakeNothingHoldUpNobodyElseAfterASecondAndHaveTheirTurnWhenTheyDo) {
  HandOvers all;
  for (std::uint64_t worker = 1; worker <= 4; ++worker) add_all(all, WorkerId{worker}, 100 * worker, 20);
  EXPECT_EQ(all.under_way(), HandOvers::kUnderWayMax);
  EXPECT_EQ(all.add(WorkerId{9}, 900, kBegin), Turn::kLater);
  EXPECT_TRUE(all.tick(kBegin + 999ms).empty());
  EXPECT_EQ(all.tick(kBegin + 1s), std::vector<std::uint64_t>{900});
  EXPECT_EQ(all.add(kOne, 120, kBegin + 1s), Turn::kLater) << "nothing more for one that takes nothing";
  EXPECT_EQ(all.taken(kOne, kBegin + 2s), std::vector<std::uint64_t>{116});
  EXPECT_EQ(all.under_way(), HandOvers::kOfWorkerMax + 1);
}

TEST(HandOvers, TooManyThatWaitAreRefusedAndLeaveNothing) {
  HandOvers all;
  add_all(all, kOne, 0, HandOvers::kOfWorkerMax + HandOvers::kWaitingMax);
  EXPECT_EQ(all.waiting(), HandOvers::kWaitingMax);
  EXPECT_EQ(all.add(kOne, 1, kBegin), Turn::kRefused);
  EXPECT_EQ(all.waiting(), HandOvers::kWaitingMax);
  EXPECT_EQ(all.add(WorkerId{2}, 1, kBegin), Turn::kNow) << "another one does not wait";
}

using RandomHandOversTest = SeededTest;

TEST_F(RandomHandOversTest, EachHasItsTurnOnceInItsWorkersOrderAndNoBoundIsPassed) {
  HandOvers all;
  TimePoint now = kBegin;
  std::map<std::uint64_t, std::vector<std::uint64_t>> came;
  std::map<std::uint64_t, std::vector<std::uint64_t>> went;
  std::map<std::uint64_t, std::size_t> on_their_way;
  std::map<std::uint64_t, std::uint64_t> worker_of;
  const auto note = [&](std::uint64_t number) {
    const std::uint64_t worker = worker_of.at(number);
    went[worker].push_back(number);
    EXPECT_LE(++on_their_way[worker], HandOvers::kOfWorkerMax);
  };
  const auto note_all = [&](const std::vector<std::uint64_t>& numbers) {
    for (const std::uint64_t number : numbers) note(number);
  };
  for (std::uint64_t number = 0; number < 20'000; ++number) {
    now += std::chrono::milliseconds{between(0, 20)};
    const std::uint64_t worker = between(1, 12);
    worker_of[number] = worker;
    came[worker].push_back(number);
    if (all.add(WorkerId{worker}, number, now) == Turn::kNow) note(number);
    EXPECT_LE(all.under_way(), HandOvers::kUnderWayMax);
    const std::uint64_t taker = between(1, 9);  // workers 10 to 12 take nothing yet
    if (on_their_way[taker] != 0) {
      --on_their_way[taker];
      note_all(all.taken(WorkerId{taker}, now));
    }
    if (between(0, 50) == 0) note_all(all.tick(now));
  }
  for (bool any = true; any;) {
    any = false;
    for (auto& [worker, count] : on_their_way) {
      if (count == 0) continue;
      any = true;
      --count;
      note_all(all.taken(WorkerId{worker}, now));
    }
  }
  EXPECT_EQ(went, came);
  EXPECT_EQ(all.under_way(), 0u);
  EXPECT_EQ(all.waiting(), 0u);
}

}  // namespace
}  // namespace pharos::scheduler
