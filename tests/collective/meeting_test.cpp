// The parts of a SharedBackend, each alone: two ranks of one process that take turns in one thread.

#include "shared/meeting.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "says.hpp"
#include "shared/bell.hpp"
#include "shared/mail.hpp"
#include "shared/round_operation.hpp"
#include "shared/shared_memory.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using Phase = Meeting::Phase;

class TwoRanks : public testing::Test {
 protected:
  static TimePoint in(Duration time) { return std::chrono::steady_clock::now() + time; }

  const Mapping memory{*Mapping::of(-1, Meeting::bytes_for(2))};
  Meeting first{memory.memory(), 0, 2};
  Meeting second{memory.memory(), 1, 2};
};

// ---- Bell

TEST(Bell, DoesNotSleepIfTheConditionIsTrue) {
  Bell::Shared shared{};
  Bell bell{shared, 1};
  EXPECT_TRUE(bell.sleep_unless([] { return true; }, 20s));
  EXPECT_FALSE(bell.has_sleepers());
}

TEST(Bell, WakesARankThatSleeps) {
  Bell::Shared shared{};
  Bell bell{shared, 2};
  std::atomic<bool> is_so = false;
  std::thread other{[&] {
    Bell theirs{shared, 2};
    while (!theirs.has_sleepers()) std::this_thread::yield();
    is_so = true;
    theirs.ring();
  }};
  const auto begin = std::chrono::steady_clock::now();
  bell.sleep_unless([&] { return is_so.load(); }, 20s);
  other.join();
  EXPECT_TRUE(is_so);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

/// Lets this thread run on this CPU only, and then, if it is `free`, on the others again.
void go_to(int cpu, bool free = false) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  if (!free) return;
  ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
}

// The other CPU has work of the lowest priority, so the kernel would leave both ranks on one CPU.
TEST(Bell, ARankDoesNotStayOnTheCpuOfTheRankThatWakesIt) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) cpus.push_back(cpu);
  }
  if (cpus.size() < 2) GTEST_SKIP() << "there is one CPU";
  std::atomic<bool> over = false;
  std::vector<std::thread> busy;
  for (std::size_t i = 1; i < cpus.size(); ++i) {
    busy.emplace_back([&, cpu = cpus[i]] {
      go_to(cpu);
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
      while (!over) {
      }
    });
  }
  Bell::Shared shared{};
  std::atomic<int> rounds = 0;
  std::thread other{[&] {
    go_to(cpus[0]);
    Bell theirs{shared, 2};
    while (!over) {
      while (!theirs.has_sleepers() && !over) std::this_thread::sleep_for(100us);
      ++rounds;
      theirs.ring();
    }
  }};
  int stayed = 0;
  {
    Bell bell{shared, 2};
    for (int i = 0; i < 20; ++i) {
      go_to(cpus[0], true);
      const int before = rounds;
      bell.sleep_unless([&] { return rounds != before; }, 20s);
      if (::sched_getcpu() == cpus[0]) ++stayed;
      std::this_thread::sleep_for(15ms);  // moves have a distance
    }
  }
  over = true;
  other.join();
  for (std::thread& each : busy) each.join();
  EXPECT_LE(stayed, 5) << "of 20";
}

// ---- Neighbours

TEST(Neighbours, SeeTheDeathOfAProcess) {
  Neighbours neighbours{0, 2, {4, 5}};
  EXPECT_EQ(neighbours.name(1), 5U);
  EXPECT_FALSE(neighbours.has_died(1)) << "nobody watches it";
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ASSERT_TRUE(neighbours.watch(1, child));
  EXPECT_FALSE(neighbours.has_died(1));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(neighbours.has_died(1, 10s));
  ::waitpid(child, nullptr, 0);
  const auto again = neighbours.watch(1, child);
  ASSERT_FALSE(again);
  EXPECT_SAYS(again.error().message(), "rank 5 has died before all ranks had joined the group");
}

// ---- The failure of all ranks

TEST(SharedFailure, IsTheFirstOne) {
  SharedFailure::Shared shared{};
  const Neighbours neighbours{0, 2, {}};
  SharedFailure failure{shared, neighbours};
  EXPECT_FALSE(failure.read());
  EXPECT_TRUE(failure.write(Error{ErrorCode::kCancelled, "the first", "Try again."}));
  EXPECT_FALSE(failure.write(Error{ErrorCode::kActorDied, "the second"}));
  const auto read = failure.read();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->code(), ErrorCode::kCancelled);
  EXPECT_EQ(read->message(), "the first");
  EXPECT_EQ(read->remedy(), "Try again.");
}

TEST(SharedFailure, IsCutWhereItIsTooLong) {
  SharedFailure::Shared shared{};
  const Neighbours neighbours{0, 2, {}};
  SharedFailure failure{shared, neighbours};
  EXPECT_TRUE(failure.write(Error{ErrorCode::kCancelled, std::string(5000, 'x')}));
  EXPECT_EQ(failure.read()->message(), std::string(SharedFailure::kTextMax - 1, 'x'));
}

// ---- Rounds and letters of a meeting

TEST_F(TwoRanks, HaveReachedAPhaseWhenBothHave) {
  first.enter(1, {});
  EXPECT_FALSE(first.all_have(1, Phase::kEntered));
  EXPECT_EQ(first.who_is_missing({.number = 1, .phase = Phase::kEntered}), 1U);
  second.enter(1, {});
  EXPECT_TRUE(first.all_have(1, Phase::kEntered));
  EXPECT_FALSE(first.all_have(1, Phase::kReduced));
  EXPECT_TRUE(first.check_agreement(1));
}

TEST_F(TwoRanks, FailTogetherWhenTheyEnterARoundWithDifferentOperations) {
  first.enter(1, {.operation = {.kind = Operation::Kind::kBarrier}});
  second.enter(1, {.operation = {.kind = Operation::Kind::kBroadcast, .count = 3}});
  const auto same = first.check_agreement(1);
  ASSERT_FALSE(same);
  EXPECT_SAYS(same.error().message(), "rank 0 called barrier, and rank 1 called broadcast(3 u8 from rank 0)");
  EXPECT_EQ(second.failure()->message(), same.error().message());
}

TEST_F(TwoRanks, UseALineAgainOnlyForALaterLetter) {
  LetterLines& sender = first.letters();
  LetterLines& receiver = second.letters();
  sender.post(1, 1, {.offset = 17});
  EXPECT_TRUE(receiver.is_posted(0, 1, 1));
  EXPECT_FALSE(receiver.is_posted(0, 1, 1 + LetterLines::kLetters)) << "it has the same line";
  EXPECT_EQ(receiver.posted(0, 1).offset, 17U);
  EXPECT_FALSE(sender.is_taken(0, 1, 1));
  receiver.take(0, 1);
  EXPECT_TRUE(sender.is_taken(0, 1, 1));
  EXPECT_FALSE(sender.is_taken(1, 0, 1)) << "the other direction counts its own letters";
}

TEST_F(TwoRanks, NameTheOneThatHasLeftToTheOneThatWaits) {
  second.leave();
  first.enter(1, {});
  const auto there = first.wait(std::vector<Meeting::Awaited>{{.number = 1, .phase = Phase::kEntered}}, in(20s));
  ASSERT_FALSE(there);
  EXPECT_SAYS(there.error().message(), "rank 1 has left the group, and barrier, round 1, waits for it");
}

// ---- Mail

class TwoMailboxes : public TwoRanks {
 protected:
  TwoMailboxes() {
    for (Mail* const each : {&sender, &receiver}) each->use({buffers[0].data(), buffers[1].data()});
  }
  static detail::Step message(std::uint64_t bytes) {
    const Operation operation{.kind = Operation::Kind::kMessage, .root = 0, .to = 1, .count = bytes};
    return {operation, operation};
  }

  std::vector<std::byte> buffers[2]{std::vector<std::byte>(Mail::buffer_bytes(2)),
                                    std::vector<std::byte>(Mail::buffer_bytes(2))};
  Mail sender{first};
  Mail receiver{second};
};

TEST_F(TwoMailboxes, CarryAMessageOfManyLettersWhileBothGoOn) {
  std::vector<std::byte> from(3 << 20);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 % 251);
  std::vector<std::byte> to(from.size());
  const auto sends = sender.begin(message(from.size()), {.from = from.data()});
  const auto receives = receiver.begin(message(from.size()), {.to = to.data()});
  ASSERT_TRUE(sender.advance());
  EXPECT_FALSE(sends->ended) << "it waits until letters are taken";
  EXPECT_EQ(sender.awaited_by(*sends)->what, Meeting::Awaited::What::kTaken);
  for (int i = 0; i < 100 && !receives->ended; ++i) {
    ASSERT_TRUE(receiver.advance());
    ASSERT_TRUE(sender.advance());
  }
  EXPECT_TRUE(sends->ended);
  EXPECT_TRUE(receives->ended);
  EXPECT_EQ(to, from);
}

TEST_F(TwoMailboxes, FailIfTheTwoRanksMeanDifferentMessages) {
  std::vector<std::byte> data(8);
  sender.begin(message(8), {.from = data.data()});
  receiver.begin(message(4), {.to = data.data()});
  EXPECT_TRUE(sender.advance());
  const auto received = receiver.advance();
  ASSERT_FALSE(received);
  EXPECT_SAYS(received.error().message(), "message(8 u8 from rank 0 to rank 1)");
  EXPECT_TRUE(first.failure());
}

TEST_F(TwoMailboxes, WaitForTheFirstMessageOfAQueue) {
  std::vector<std::byte> data(8);
  receiver.begin(message(4), {.to = data.data()});
  const auto later = receiver.begin(message(8), {.to = data.data()});
  const auto awaited = receiver.awaited_by(*later);
  ASSERT_TRUE(awaited);
  EXPECT_EQ(awaited->operation.count, 4U);
  std::vector<Meeting::Awaited> all;
  receiver.add_awaited(all);
  EXPECT_EQ(all.size(), 1U);
}

// ---- The data of a round

RoundOperation reducing(std::vector<float>& data, std::uint32_t rank) {
  const Operation operation{.kind = Operation::Kind::kAllReduce, .dtype = DType::kF32, .count = data.size()};
  auto* const bytes = reinterpret_cast<std::byte*>(data.data());
  return RoundOperation{{operation, operation}, {bytes, bytes}, rank, 2};
}

TEST(RoundOperation, GoesTheWayOfItsSize) {
  std::vector<float> few(4);
  std::vector<float> some(2048);
  std::vector<float> many(1 << 20);
  EXPECT_TRUE(reducing(few, 0).is_small());
  EXPECT_FALSE(reducing(few, 0).uses_staging());
  EXPECT_EQ(reducing(some, 0).way(), RoundOperation::Way::kOneShot);
  EXPECT_EQ(reducing(many, 0).way(), RoundOperation::Way::kTwoShot);
  EXPECT_EQ(reducing(many, 0).rounds(), 4U);
  EXPECT_TRUE(reducing(some, 0).may_be_in_place().empty()) << "a copy is faster than to wait twice";
  EXPECT_EQ(reducing(many, 0).may_be_in_place().size(), many.size() * sizeof(float));
}

TEST(RoundOperation, NeedsNoStagingAndOneRoundInPlace) {
  std::vector<float> many(1 << 20);
  RoundOperation operation = reducing(many, 0);
  operation.go_in_place(3, 64);
  EXPECT_EQ(operation.rounds(), 1U);
  EXPECT_FALSE(operation.uses_staging());
  EXPECT_EQ(operation.said().window, 3U);
  EXPECT_EQ(operation.said().offset, 64U);
}

TEST(RoundOperation, SumsTheStagedDataOfAllRanksInOneShot) {
  std::vector<float> own(100, 1);
  std::vector<float> theirs(100, 2);
  std::vector<std::byte> staged[2]{std::vector<std::byte>(400), std::vector<std::byte>(400)};
  const RoundOperation first = reducing(own, 0);
  first.stage(staged[0].data());
  reducing(theirs, 1).stage(staged[1].data());
  first.take_staged(std::vector<std::byte*>{staged[0].data(), staged[1].data()});
  EXPECT_EQ(own, std::vector<float>(100, 3));
}

TEST(RoundOperation, ReducesOnlyItsOwnPartForAllRanksInTwoShots) {
  std::vector<float> data(4096, 1);
  std::vector<float> staged[2]{std::vector<float>(4096, 1), std::vector<float>(4096, 2)};
  const std::vector<std::byte*> buffers{reinterpret_cast<std::byte*>(staged[0].data()),
                                        reinterpret_cast<std::byte*>(staged[1].data())};
  const RoundOperation operation = reducing(data, 1);
  operation.reduce_part(buffers);
  for (const auto& each : staged) EXPECT_EQ(each[4095], 3);
  EXPECT_EQ(staged[0][0], 1) << "the other rank reduces that part";
  operation.take_reduced(buffers[1]);
  EXPECT_EQ(data[4095], 3);
}

TEST(RoundOperation, EndsAfterItsLastRound) {
  std::vector<float> many(1 << 19);
  RoundOperation operation = reducing(many, 0);
  operation.first_round = 10;
  EXPECT_FALSE(operation.is_last_round());
  operation.next_round();
  EXPECT_EQ(operation.round(), 11U);
  EXPECT_TRUE(operation.is_last_round());
  operation.next_round();
  EXPECT_TRUE(operation.ended);
}

}  // namespace
}  // namespace pharos::ml
