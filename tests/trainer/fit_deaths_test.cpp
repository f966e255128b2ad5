// The curve stays the same when ranks are killed, are stopped or hang.

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/ml/sync_batch_norm.hpp>
#include <pharos/pharos.hpp>

#include "fitting.hpp"
#include "mishaps.hpp"
#include "says.hpp"
#include "seed.hpp"

namespace pharos::ml::fitting {

/// Normalises over the batch of all ranks.
struct Synced : Points {
  using Points::Points;

  torch::nn::Module& module() override {
    if (net_->is_empty()) {
      net_->push_back(torch::nn::Linear(2, 16));
      net_->push_back(SyncBatchNorm(context().communicator(), 16));
      net_->push_back(torch::nn::Linear(16, 3));
      net_->to(torch::kDouble);
    }
    return *net_;
  }
  Tensor training_step(const Batch& batch) override {
    return torch::cross_entropy_loss(net_->forward(tensor_of(batch["point"])), tensor_of(batch["class"]));
  }
  Metrics validation_step(const Batch&) override { return 0.0; }

 private:
  torch::nn::Sequential net_;
};

namespace {

TEST_F(FitTest, ARankThatIsKilledIsNoHarmToWhatIsLearned) {
  Runtime runtime;
  Trainer calm{runtime, options("calm", 2)};
  const TrainResult whole = fit<Points>(calm, {.batch = 6, .epochs = 3}, std::uint64_t{0});
  for (const FitStrategy each : {FitStrategy::kCopies, FitStrategy::kFullyShard}) {
    Trainer trainer{runtime, options("killed" + std::to_string(static_cast<int>(each)), 2)};
    const TrainResult result = fit<Points>(trainer, {.batch = 6, .epochs = 3, .strategy = each}, std::uint64_t{4});
    ASSERT_EQ(result.interruptions.size(), 1U);
    EXPECT_SAYS(result.interruptions[0].why, "rank 1");
    EXPECT_GT(result.interruptions[0].step, 0U);
    EXPECT_LT(result.interruptions[0].step, whole.steps);
    EXPECT_GT(result.interruptions[0].took, 0);
    EXPECT_LT(result.interruptions[0].seconds + result.interruptions[0].took, result.seconds);
    EXPECT_SAYS(result.to_svg(), "here a rank died");
    const std::string page = result.to_html();
    EXPECT_SAYS(page, "<td>interruptions</td><td>1</td>");
    EXPECT_SAYS(page, "here a rank died");
    EXPECT_SAYS(page, "rank 1");
    EXPECT_SAYS(page, "validation_loss</text>");
    ASSERT_EQ(result.steps, whole.steps);
    for (std::size_t i = 0; i < whole.steps; ++i) EXPECT_NEAR(losses(result)[i], losses(whole)[i], 1e-9) << i;
  }
}

const FitOptions kImages{.batch = 5, .epochs = 3};
constexpr std::uint64_t kImageSteps = 3 * 5;  // on three ranks

/// Expects the same numbers, to the bit, and each step once. The validation after the last step shows what that step
/// has changed.
void expect_same(const TrainResult& result, const TrainResult& calm) {
  ASSERT_EQ(calm.steps, kImageSteps);
  ASSERT_TRUE(calm.last("validation_loss"));
  ASSERT_EQ(result.reports.size(), calm.reports.size());
  for (std::size_t i = 0; i < result.reports.size(); ++i) {
    EXPECT_EQ(result.reports[i].step, i + 1);
    for (const char* const name : {"loss", "validation_loss", "validation_seen"}) {
      const auto* const wanted = calm.reports[i].metrics.find(name);
      const auto* const found = result.reports[i].metrics.find(name);
      ASSERT_EQ(found == nullptr, wanted == nullptr) << name << " of step " << i + 1;
      if (wanted == nullptr) continue;
      EXPECT_EQ(*found, *wanted) << name << " of step " << i + 1;
    }
  }
}

/// Expects the checkpoints that a complete training leaves in its folder.
void expect_whole_checkpoints(const std::filesystem::path& folder) {
  const auto saved = checkpoints_in(folder / "checkpoints");
  ASSERT_EQ(saved.size(), 2U);
  EXPECT_EQ(saved[0].moment.step, kImageSteps);
  for (const SavedCheckpoint& each : saved) verify_checkpoint(each.path);
}

class Replaced : public FitTest {
 protected:
  /// Without a folder a replacement can get its state only from the other ranks.
  static TrainResult train(Runtime& runtime, const Mishap& mishap, Duration timeout = std::chrono::seconds{20},
                           const std::filesystem::path& folder = {}) {
    Trainer trainer{runtime,
                    {.scaling = {.workers = 3, .cpus_per_worker = 0},
                     .seed = 3,
                     .folder = folder,
                     .save_every = folder.empty() ? std::uint64_t{0} : 2,
                     .timeout = timeout,
                     .progress = false}};
    return fit<Images>(trainer, kImages, mishap);
  }
  static void expect_as_if_nothing_had_been(Runtime& runtime, const TrainResult& result) {
    static const TrainResult calm = train(runtime, {});
    expect_same(result, calm);
  }
  static void expect_replaced(const TrainResult& result, std::size_t times, const std::string& who) {
    ASSERT_EQ(result.interruptions.size(), times);
    for (const TrainResult::Interruption& each : result.interruptions) {
      EXPECT_TRUE(each.is_replacement) << each.why;
      EXPECT_SAYS(each.why, who);
    }
  }
};

using At = Mishap::At;

TEST_F(Replaced, WhereverItDiesTheOthersGoOnWithTheSameStep) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  for (const At at : {At::kBeforeForward, At::kBeforeBackward, At::kBeforeCommit, At::kInValidation}) {
    for (const std::uint32_t rank : {0U, 2U}) {
      const std::uint64_t step = at == At::kInValidation ? 10 : 7;
      SCOPED_TRACE("rank " + std::to_string(rank) + " at " + std::to_string(static_cast<int>(at)));
      const TrainResult result = train(runtime, {.at = at, .ranks = {rank}, .step = step});
      expect_as_if_nothing_had_been(runtime, result);
      expect_replaced(result, 1, "rank " + std::to_string(rank));
    }
  }
}

TEST_F(Replaced, AtEachFailpointOfAStep) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  for (const std::string where : {"data_given", "part_reduced", "result_taken", "step_committed", "step_told"}) {
    for (const std::string how : {":kill:0", ":kill:1", ":stop:0"}) {
      const std::uint32_t rank = how.ends_with('1') ? 0 : 2;
      SCOPED_TRACE("rank " + std::to_string(rank) + " at " + where + how);
      const TrainResult result =
          train(runtime, {.at = At::kFailpoint, .ranks = {rank}, .step = 6, .failpoint = where + how},
                how.starts_with(":stop") ? std::chrono::seconds{1} : std::chrono::seconds{20});
      expect_as_if_nothing_had_been(runtime, result);
      expect_replaced(result, 1, "rank " + std::to_string(rank));
    }
  }
}

/// The first step ends with new buckets, and all ranks meet to allocate them.
TEST_F(Replaced, WhoDiesWhileBucketsAreMade) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  for (const std::string where : {"memory_offered:kill:0", "memory_mapped:kill:0"}) {
    SCOPED_TRACE(where);
    const TrainResult result = train(runtime, {.at = At::kFailpoint, .ranks = {1}, .step = 0, .failpoint = where});
    expect_as_if_nothing_had_been(runtime, result);
    expect_replaced(result, 1, "rank 1");
  }
}

/// The save that is under way either lacks a part, or has all parts and counts as a checkpoint.
TEST_F(Replaced, WhereverItSaves) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  int number = 0;
  const auto die_at = [&](std::uint32_t rank, const std::string& where) {
    SCOPED_TRACE("rank " + std::to_string(rank) + " at " + where);
    const std::filesystem::path folder = folder_.path() / std::to_string(++number);
    const auto timeout = std::chrono::seconds{where.find(":stop") != std::string::npos ? 1 : 20};
    const TrainResult result =
        train(runtime, {.at = At::kFailpoint, .ranks = {rank}, .step = 5, .failpoint = where}, timeout, folder);
    expect_as_if_nothing_had_been(runtime, result);
    expect_replaced(result, 1, "rank " + std::to_string(rank));
    expect_whole_checkpoints(folder);
  };
  for (const std::string where : {"state_copied", "save_begun", "save_written", "save_said"}) {
    die_at(0, where + ":kill:0");
    die_at(2, where + ":kill:1");
    die_at(1, where + ":stop:0");
  }
  for (const std::string where : {"saves_there", "manifest_written", "old_removed"}) {
    die_at(0, where + ":kill:0");
    die_at(0, where + ":stop:1");
  }
}

TEST_F(Replaced, WhoIsStoppedIsEndedAndReplaced) {
  Runtime runtime;
  const TrainResult result =
      train(runtime, {.at = At::kBeforeBackward, .ranks = {1}, .step = 6, .signal = SIGSTOP}, std::chrono::seconds{1});
  expect_as_if_nothing_had_been(runtime, result);
  expect_replaced(result, 1, "rank 1");
}

TEST_F(Replaced, OneWhoseFunctionHangsIsEndedAndReplaced) {
  Runtime runtime;
  for (const std::uint32_t rank : {0U, 2U}) {
    const TrainResult result =
        train(runtime, {.at = At::kBeforeBackward, .ranks = {rank}, .step = 6, .signal = 0}, std::chrono::seconds{1});
    expect_as_if_nothing_had_been(runtime, result);
    expect_replaced(result, 1, "rank " + std::to_string(rank));
    EXPECT_SAYS(result.interruptions[0].why, "and may hang");
  }
}

TEST_F(Replaced, OneThatIsLateGoesOnWithTheOthers) {
  Runtime runtime;
  const TrainResult result =
      train(runtime, {.at = At::kBeforeBackward, .ranks = {1}, .step = 6, .microseconds = 1'600'000, .signal = 0},
            std::chrono::seconds{1});
  expect_as_if_nothing_had_been(runtime, result);
  expect_replaced(result, 1, "a rank reached the other ranks too late, although all ranks are alive");
}

TEST_F(Replaced, TwoThatDieAtOnceAreReplaced) {
  Runtime runtime;
  const TrainResult result = train(runtime, {.at = At::kBeforeBackward, .ranks = {0, 2}, .step = 6});
  expect_as_if_nothing_had_been(runtime, result);
  ASSERT_GE(result.interruptions.size(), 1U);
  for (const TrainResult::Interruption& each : result.interruptions) {
    EXPECT_TRUE(each.is_replacement) << each.why;
    EXPECT_EQ(each.why.find("rank 1"), std::string::npos) << each.why;
  }
}

TEST_F(Replaced, WhoDiesInItsPlaceIsReplacedUntilThatIsTooOften) {
  Runtime runtime;
  const std::string text = message_of<ActorDied>(
      [&] { train(runtime, {.at = At::kBeforeForward, .ranks = {1}, .step = 6, .replacement_too = true}); });
  EXPECT_SAYS(text, "training was begun once, had a rank replaced 3 times, and");
  EXPECT_SAYS(text, "rank 1");
}

/// The other ranks have the state, and learn once more which ranks there are.
TEST_F(Replaced, WhoDiesWhileItTakesTheStateIsReplaced) {
  Runtime runtime;
  for (const std::string how : {"kill", "stop"}) {
    SCOPED_TRACE(how);
    const TrainResult result = train(runtime,
                                     {.at = At::kBeforeForward,
                                      .ranks = {1},
                                      .step = 6,
                                      .in_place = "state_taken:" + how,
                                      .marker = folder_.path() / how},
                                     how == "stop" ? std::chrono::seconds{1} : std::chrono::seconds{20});
    expect_as_if_nothing_had_been(runtime, result);
    expect_replaced(result, 2, "rank 1");
  }
}

/// The remaining ranks have the state of both dead ranks. Rank 0 gives the state to the replacement. If rank 0 is
/// stopped there, the ranks cannot meet, and the training may begin again.
TEST_F(Replaced, WhoDiesAsItMeetsWhoHasComeInAPlaceIsReplaced) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  for (const std::string where : {"rank_here", "memory_offered", "memory_mapped", "state_given"}) {
    for (const std::string how : {":kill", ":stop"}) {
      SCOPED_TRACE(where + how);
      const TrainResult result =
          train(runtime,
                {.at = At::kFailpoint, .ranks = {2}, .step = 6, .failpoint = "data_given:kill", .meeting = where + how},
                how == ":stop" ? std::chrono::seconds{1} : std::chrono::seconds{20});
      expect_as_if_nothing_had_been(runtime, result);
      std::string all;  // both ranks may be replaced together
      for (const TrainResult::Interruption& each : result.interruptions) {
        EXPECT_TRUE(each.is_replacement || how == ":stop") << each.why;
        all += each.why + '\n';
      }
      EXPECT_SAYS(all, "rank 0");
      EXPECT_SAYS(all, "rank 2");
    }
  }
}

TEST_F(Replaced, AllThatDieBeginAgain) {
  Runtime runtime;
  const TrainResult result = train(runtime, {.at = At::kBeforeBackward, .ranks = {0, 1, 2}, .step = 6});
  expect_as_if_nothing_had_been(runtime, result);
  ASSERT_GE(result.interruptions.size(), 1U);
  EXPECT_FALSE(result.interruptions.back().is_replacement);
}

TEST_F(FitTest, WhereRanksHaveStateOfTheirOwnTheyBeginAgainAtTheCheckpoint) {
  Runtime runtime;
  Trainer trainer{runtime, options("own", 3)};
  const Mishap mishap{.at = At::kBeforeBackward, .ranks = {2}, .step = 7, .counts = true};
  const TrainResult result = fit<Images>(trainer, kImages, mishap);
  ASSERT_EQ(result.interruptions.size(), 1U);
  EXPECT_FALSE(result.interruptions[0].is_replacement);
  EXPECT_EQ(result.last("validation_own_steps"), kImageSteps);
}

TEST_F(FitTest, WhatKnowsItsRanksBeginsAgainAtTheCheckpoint) {
  Runtime runtime;
  const FitOptions how{.batch = 6, .epochs = 2, .tail = Tail::kDrop};
  Trainer calm{runtime, options("calm", 2)};
  const TrainResult whole = fit<Synced>(calm, how, std::uint64_t{0});
  Trainer trainer{runtime, options("killed", 2)};
  const TrainResult result = fit<Synced>(trainer, how, std::uint64_t{2});
  ASSERT_EQ(result.interruptions.size(), 1U);
  EXPECT_FALSE(result.interruptions[0].is_replacement);
  EXPECT_EQ(losses(result), losses(whole));
}

/// With a strategy that divides the state, the training resumes from the newest checkpoint.
TEST_F(FitTest, ADividedOneThatDiesAtAnyFailpointLearnsTheSame) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{360});
  for (const FitStrategy strategy : {FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard}) {
    FitOptions how = kImages;
    how.strategy = strategy;
    const auto train = [&](const std::string& name, const Mishap& mishap) {
      TrainerOptions its = options(name, 3);
      if (mishap.failpoint.find(":stop") != std::string::npos) its.timeout = std::chrono::seconds{1};
      std::filesystem::remove_all(its.folder);
      Trainer trainer{runtime, std::move(its)};
      return fit<Images>(trainer, how, mishap);
    };
    const TrainResult calm = train("calm", {});
    ASSERT_EQ(calm.steps, kImageSteps);
    const auto die_at = [&](std::uint32_t rank, const std::string& where) {
      SCOPED_TRACE("rank " + std::to_string(rank) + " at " + where + ", strategy " +
                   std::to_string(static_cast<int>(strategy)));
      const TrainResult result = train("dies", {.at = At::kFailpoint, .ranks = {rank}, .step = 6, .failpoint = where});
      expect_same(result, calm);
      expect_whole_checkpoints(folder_.path() / "dies");
      ASSERT_EQ(result.interruptions.size(), 1U) << "it did not come there";
      EXPECT_FALSE(result.interruptions[0].is_replacement);
      EXPECT_SAYS(result.interruptions[0].why, "rank " + std::to_string(rank));
    };
    for (const std::string where : {"data_given", "part_reduced", "result_taken", "step_committed", "step_told",
                                    "state_copied", "save_begun", "save_written", "save_said"}) {
      die_at(0, where + ":kill:0");
      die_at(2, where + ":kill:1");
      die_at(1, where + ":stop:0");
    }
    for (const std::string where : {"saves_there", "manifest_written", "old_removed"}) {
      die_at(0, where + ":kill:0");
      die_at(0, where + ":stop:0");
    }
  }
}

/// Draws a rank, a time and a signal. The time is between the first moments of a training and about the end of `calm`,
/// an undisturbed training.
Mishap any_mishap(std::mt19937& random, const TrainResult& calm) {
  const double before_steps = 0.01;
  const double seconds = before_steps + 1.25 * (calm.reports.back().seconds - calm.reports.front().seconds);
  const double share = std::uniform_real_distribution{}(random);
  return {.at = At::kAnyTime,
          .ranks = {static_cast<std::uint32_t>(random() % 3)},
          .microseconds = static_cast<std::uint64_t>(share * seconds * 1e6),
          .signal = random() % 5 == 0 ? SIGSTOP : SIGKILL};
}
std::string describe(int round, const Mishap& mishap) {
  return "round " + std::to_string(round) + ": rank " + std::to_string(mishap.ranks[0]) + " after " +
         std::to_string(mishap.microseconds) + " us" + (mishap.signal == SIGSTOP ? ", stopped" : "");
}

TEST_F(Replaced, AtAnyInstant) {
  Runtime runtime;
  std::mt19937 random{static_cast<unsigned>(seed_of_test())};
  const int wanted = rounds_of_test(20);
  must_end_within(std::chrono::seconds{60 + 10 * wanted});
  const TrainResult calm = train(runtime, {});
  int deaths = 0;
  int replacements = 0;
  for (int round = 0; deaths < wanted || replacements < wanted / 2; ++round) {
    ASSERT_LT(round, 10 * wanted) << deaths << " deaths, " << replacements << " replacements";
    const Mishap mishap = any_mishap(random, calm);
    SCOPED_TRACE(describe(round, mishap));
    const TrainResult result = train(runtime, mishap, std::chrono::seconds{1});
    expect_as_if_nothing_had_been(runtime, result);
    if (!result.interruptions.empty()) {
      const TrainResult::Interruption& interruption = result.interruptions[0];
      ++deaths;
      replacements += interruption.is_replacement ? 1 : 0;
      EXPECT_SAYS(interruption.why, "rank " + std::to_string(mishap.ranks[0]));
      // Before the first step the trainer may not know yet that ranks can be replaced. After the last step another rank
      // may have returned already, and its state is gone.
      const bool may_begin_again =
          interruption.step == 0 || interruption.why.find("had ended before") != std::string::npos;
      EXPECT_TRUE(interruption.is_replacement || may_begin_again)
          << interruption.why << ", behind step " << interruption.step;
    }
    if (HasFailure()) return;
  }
}

TEST_F(FitTest, ADividedOneThatDiesAtAnyInstantLearnsTheSame) {
  Runtime runtime;
  std::mt19937 random{static_cast<unsigned>(seed_of_test())};
  const int wanted = rounds_of_test(20);
  must_end_within(std::chrono::seconds{60 + 10 * wanted});
  constexpr FitStrategy kDivided[] = {FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard};
  const auto train = [&](int round, const Mishap& mishap) {
    TrainerOptions its = options("dies", 3);
    its.timeout = std::chrono::seconds{1};
    std::filesystem::remove_all(its.folder);
    Trainer trainer{runtime, std::move(its)};
    FitOptions how = kImages;
    how.strategy = kDivided[round % 3];
    return fit<Images>(trainer, how, mishap);
  };
  std::vector<TrainResult> calm;
  for (int each = 0; each < 3; ++each) calm.push_back(train(each, {}));
  int deaths = 0;
  for (int round = 0; deaths < wanted; ++round) {
    ASSERT_LT(round, 10 * wanted) << "it was over before they died";
    const Mishap mishap = any_mishap(random, calm[static_cast<std::size_t>(round % 3)]);
    SCOPED_TRACE(describe(round, mishap));
    const TrainResult result = train(round, mishap);
    expect_same(result, calm[static_cast<std::size_t>(round % 3)]);
    expect_whole_checkpoints(folder_.path() / "dies");
    if (!result.interruptions.empty()) {
      ++deaths;
      EXPECT_FALSE(result.interruptions[0].is_replacement);
      EXPECT_SAYS(result.interruptions[0].why, "rank " + std::to_string(mishap.ranks[0]));
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace pharos::ml::fitting
