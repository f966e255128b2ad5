// Trainings with ranks that die, stop, throw or disagree.

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/base/failpoint.hpp>
#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/trainer.hpp>
#include <pharos/pharos.hpp>

#include "says.hpp"
#include "seed.hpp"
#include "trainings.hpp"

namespace pharos::ml::trainer {

using namespace std::chrono_literals;

void says_other_things(TrainContext& context) {
  context.report({{"loss", 1}});
  context.report({{context.rank() == 2 ? "lost" : "loss", 1}});
}
/// Is killed in its first attempt, after its steps have been reported, and does nothing in its second attempt.
void does_nothing_again(TrainContext& context, const std::string& marker) {
  context.resume({});
  if (context.attempt() != 0) return;
  while (context.step() < 20) context.report(1.0);
  for (int waits = 0; waits < 30'000 && !fs::exists(marker); ++waits) std::this_thread::sleep_for(1ms);
  ::kill(::getpid(), SIGKILL);
}
/// Rank 1 does fewer steps than the others.
void returns_early(TrainContext& context) {
  double sum = 0;
  State state;
  state.add("sum", sum);
  context.resume(state, OnRankDeath::kReplace);
  for (;;) {
    try {
      while (context.has_to_tell() || context.step() < (context.rank() == 1 ? 7 : 20)) {
        if (!context.has_to_tell()) context.commit(1.0);
        if (context.tell() != Verdict::kGoOn) return;
      }
      return;
    } catch (const Exception& why) {
      if (!context.rejoin(why)) throw;
    }
  }
}
void dies_at(TrainContext& context, std::uint32_t rank, std::string_view where) {
  if (context.attempt() == 0 && context.rank() == rank) order_failpoint(*parse_failpoint(where));
  train(context, {}, kSteps);
}

constexpr const char* kOrderOfFirst = "PHAROS_TEST_ORDER_OF_FIRST";

/// The first process of an actor takes the failpoint order in the file that this variable names. So a rank has the
/// order before the ranks meet.
void take_order_of_first() {
  const std::string path = std::getenv(kOrderOfFirst);
  const std::string taken = path + ".taken";
  if (std::rename(path.c_str(), taken.c_str()) != 0) return;  // another process has taken it
  std::string order;
  std::ifstream{taken} >> order;
  order_failpoint(*parse_failpoint(order));
}
// Actor processes are forked from a process that has loaded the program, so the handler runs in each of them.
const bool takes_orders =
    std::getenv(kOrderOfFirst) != nullptr && ::pthread_atfork(nullptr, nullptr, &take_order_of_first) == 0;

/// In the first attempt one rank is killed or stopped after some time.
void ends_after(TrainContext& context, std::uint32_t rank, std::uint64_t microseconds, bool stops) {
  if (context.attempt() == 0 && context.rank() == rank) {
    std::thread{[microseconds, stops] {
      std::this_thread::sleep_for(std::chrono::microseconds{microseconds});
      ::kill(::getpid(), stops ? SIGSTOP : SIGKILL);
    }}.detach();
  }
  train(context, {}, kSteps);
}

namespace {

TEST_F(TrainerTest, OneThatIsKilledIsNamedAndTheGroupGoesOnFromTheNewestCheckpoint) {
  Runtime runtime;
  for (const std::uint32_t victim : {0U, 2U}) {
    SCOPED_TRACE(victim);
    fs::remove_all(folder_.path() / "run");
    Trainer trainer{runtime, options(3)};
    const TrainResult result = trainer.run<&train>(Mishap{Mishap::What::kDies, victim, 23}, kSteps);
    expect_all_steps(result, 3);
    ASSERT_EQ(result.interruptions.size(), 1U);
    EXPECT_SAYS(result.interruptions[0].why, "rank " + std::to_string(victim));
    EXPECT_EQ(result.reports[9].metrics.find("attempt")[0], 0);
    EXPECT_EQ(result.reports.back().metrics.find("attempt")[0], 1);
    // Curves have each step once, with the values of the attempt that counts.
    const std::string scalars = scalars_in(folder_.path() / "run" / "tensorboard");
    EXPECT_EQ(lines_in(scalars), 2 * kSteps);
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      EXPECT_SAYS('\n' + scalars, "\nloss " + std::to_string(step) + ' ');
    }
  }
}

TEST_F(TrainerTest, OneThatIsStoppedIsNamedAndTheGroupGoesOn) {
  Runtime runtime;
  TrainerOptions short_time = options(3);
  short_time.timeout = 1s;
  Trainer trainer{runtime, std::move(short_time)};
  const TrainResult result = trainer.run<&train>(Mishap{Mishap::What::kStops, 1, 12}, kSteps);
  expect_all_steps(result, 3);
  ASSERT_EQ(result.interruptions.size(), 1U);
  EXPECT_SAYS(result.interruptions[0].why, "rank 1");
}

TEST_F(TrainerTest, OneThatAlwaysDiesIsGivenUp) {
  Runtime runtime;
  TrainerOptions twice = options(2);
  twice.restarts = 2;
  Trainer trainer{runtime, std::move(twice)};
  const std::string text = message_of<ActorDied>([&] {
    trainer.run<&train>(Mishap{Mishap::What::kDies, 1, 7, std::numeric_limits<std::uint32_t>::max()}, kSteps);
  });
  EXPECT_SAYS(text, "training was begun 3 times, and");
  EXPECT_SAYS(text, "rank 1");
  EXPECT_SAYS(text, ". Fix what ends the ranks, or give the trainer more restarts.");
  EXPECT_EQ(text.find("max_restarts"), std::string::npos) << text;
}

TEST_F(TrainerTest, WhatAFunctionThrowsEndsTheTrainingAndNamesTheRank) {
  Runtime runtime;
  Trainer trainer{runtime, options(3)};
  const std::string text = message_of<UserError>([&] {
    trainer.run<&train>(Mishap{Mishap::What::kThrows, 1, 7}, kSteps);
  });
  EXPECT_SAYS(text, "rank 1");
  EXPECT_SAYS(text, "the data has ended");
}

TEST_F(TrainerTest, ALossThatIsNoNumberEndsItAndNamesTheRank) {
  Runtime runtime;
  Trainer trainer{runtime, options(3)};
  const std::string text = message_of<UserError>([&] {
    trainer.run<&train>(Mishap{Mishap::What::kIsNoNumber, 2, 7}, kSteps);
  });
  EXPECT_SAYS(text, "\"loss\" of rank 2 is no longer finite at step 8");
}

TEST_F(TrainerTest, RanksThatReportDifferentThingsAreTold) {
  Runtime runtime;
  Trainer trainer{runtime, options(3)};
  const std::string text = message_of<InvalidArgument>([&] { trainer.run<&says_other_things>(); });
  EXPECT_SAYS(text, "rank 2 and rank 0 report different metrics at step 2");
}

TEST_F(TrainerTest, OneThatReturnsWhileOthersGoOnIsNamed) {
  Runtime runtime;
  Trainer trainer{runtime, {.scaling = {.workers = 3, .cpus_per_worker = 0}, .timeout = 1s, .progress = false}};
  EXPECT_SAYS(message_of<FailedPrecondition>([&] { trainer.run<&returns_early>(); }),
              "the function of rank 1 has returned, while other ranks wait for it after step 7");
}

TEST_F(TrainerTest, OfADamagedCheckpointTheOneBeforeIsTakenAndIfThereIsNoneThatIsSaid) {
  Runtime runtime;
  TrainerOptions each = options(2);
  each.keep_last = 10;
  const auto damage = [](const fs::path& checkpoint) {
    const auto of_size = [](const fs::path& path) { return fs::file_size(path); };
    const std::vector<fs::path> files{fs::directory_iterator{checkpoint}, fs::directory_iterator{}};
    const fs::path& largest = *std::ranges::max_element(files, {}, of_size);
    std::fstream file{largest, std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(static_cast<std::streamoff>(fs::file_size(largest) / 2));
    file << "damage";
  };
  Trainer trainer{runtime, std::move(each)};
  trainer.run<&train>(Mishap{}, 20);
  const std::vector<SavedCheckpoint> saved = checkpoints();
  ASSERT_EQ(saved.size(), 4U);
  damage(saved[0].path);
  const TrainResult more = trainer.run<&train>(Mishap{}, kSteps);
  EXPECT_EQ(more.reports.front().step, 16U);
  EXPECT_NEAR(*more.last("loss"), expected(kSteps, 2), 1e-9);
  std::string log;
  for (const std::string& line : lines_of("logs/rank-0.log")) log += line + '\n';
  EXPECT_SAYS(log, "a checkpoint cannot be read, an older one is tried");
  EXPECT_SAYS(log, saved[0].path.filename().string());

  for (const SavedCheckpoint& left : checkpoints()) damage(left.path);
  const std::string text = message_of<Exception>([&] { trainer.run<&train>(Mishap{}, kSteps + 1); });
  EXPECT_SAYS(text, "and none can be read");
  EXPECT_SAYS(text, "or give another folder to begin anew");
}

TEST_F(TrainerTest, WhatWasReportedOfStepsThatDoNotCountIsNotInTheResult) {
  Runtime runtime;
  const std::string marker = folder_.path() / "heard";
  const auto hear = [&](const TrainReport& report) {
    if (report.step == 20) std::ofstream{marker} << "20";
    return Verdict::kGoOn;
  };
  Trainer trainer{runtime, {.scaling = {.cpus_per_worker = 0}, .callbacks = {hear}, .progress = false}};
  const TrainResult result = trainer.run<&does_nothing_again>(marker);
  EXPECT_EQ(result.interruptions.size(), 1U);
  EXPECT_EQ(result.steps, 0U);
  EXPECT_TRUE(result.reports.empty());
  EXPECT_FALSE(result.best);
}

TEST_F(TrainerTest, ARankThatIsKilledOrStoppedWhereverItSavesOrWorksIsNoHarm) {
  must_end_within(120s);
  Runtime runtime;
  const auto die_at = [&](std::uint32_t rank, const std::string& where) {
    SCOPED_TRACE("rank " + std::to_string(rank) + " at " + where);
    fs::remove_all(folder_.path() / "run");
    TrainerOptions each = options(2);
    if (where.find(":stop") != std::string::npos) each.timeout = 1s;
    const TrainResult result = Trainer{runtime, std::move(each)}.run<&dies_at>(rank, where);
    expect_all_steps(result, 2);
    ASSERT_EQ(result.interruptions.size(), 1U) << "it did not come there";
    EXPECT_SAYS(result.interruptions[0].why, "rank " + std::to_string(rank));
  };
  for (const std::string where : {"state_copied", "save_begun", "save_written", "save_said", "data_given",
                                  "part_reduced", "result_taken", "step_committed", "step_told"}) {
    for (const std::string how : {":kill:0", ":kill:4", ":stop:2"}) die_at(1, where + how);
  }
  for (const std::string where : {"state_copied", "save_said", "saves_there", "manifest_written", "old_removed"}) {
    for (const std::string how : {":kill:0", ":kill:4", ":stop:2"}) die_at(0, where + how);
  }
  // A rank gets the memory for copies of its state only once, at these failpoints.
  for (const std::string where : {"slab_leased", "slot_begun", "slot_provided"}) {
    for (const std::string how : {":kill", ":stop"}) die_at(1, where + how);
  }
}

TEST_F(TrainerTest, ARankThatIsKilledOrStoppedAsItMeetsTheOthersIsNoHarm) {
  must_end_within(120s);
  for (const std::string where : {"rank_here", "memory_offered", "memory_mapped"}) {
    for (const std::string how : {":kill", ":stop"}) {
      SCOPED_TRACE(where + how);
      const fs::path order = folder_.path() / "order";
      ::setenv(kOrderOfFirst, order.c_str(), 1);
      Runtime runtime;  // its processes have the variable
      ::unsetenv(kOrderOfFirst);
      std::ofstream{order} << where << how;
      fs::remove_all(folder_.path() / "run");
      TrainerOptions each = options(3);
      each.timeout = 1s;
      const TrainResult result = Trainer{runtime, std::move(each)}.run<&train>(Mishap{}, kSteps);
      EXPECT_FALSE(fs::exists(order));
      expect_all_steps(result, 3);
      if (how == ":kill") continue;  // the actor mostly has a new process before the training hears of the death
      ASSERT_EQ(result.interruptions.size(), 1U);
      EXPECT_SAYS(result.interruptions[0].why, "1 of 3 ranks did not answer: rank ");
    }
  }
}

TEST_F(TrainerTest, ARankThatIsKilledOrStoppedAtAnyInstantIsNoHarm) {
  std::mt19937 random{static_cast<unsigned>(seed_of_test())};
  const int wanted = rounds_of_test(20);
  must_end_within(std::chrono::seconds{60 + 10 * wanted});
  Runtime runtime;
  int deaths = 0;
  for (int round = 0; deaths < wanted; ++round) {
    ASSERT_LT(round, 10 * wanted) << "it was over before they died";
    const auto victim = static_cast<std::uint32_t>(random() % 3);
    const std::uint64_t after = random() % 60'000;
    const bool stops = random() % 4 == 0;
    SCOPED_TRACE("round " + std::to_string(round) + ": rank " + std::to_string(victim) + " after " +
                 std::to_string(after) + " us" + (stops ? ", stopped" : ""));
    fs::remove_all(folder_.path() / "run");
    TrainerOptions each = options(3);
    each.timeout = 1s;
    const TrainResult result = Trainer{runtime, std::move(each)}.run<&ends_after>(victim, after, stops);
    expect_all_steps(result, 3);
    EXPECT_LE(result.interruptions.size(), 1U);
    deaths += static_cast<int>(result.interruptions.size());
    if (!result.interruptions.empty()) {
      EXPECT_SAYS(result.interruptions[0].why, "rank " + std::to_string(victim));
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace pharos::ml::trainer
