// The output of trainings: results, files, curves, progress and logs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <pharos/ml/tensorboard_file.hpp>
#include <pharos/ml/trainer.hpp>
#include <pharos/pharos.hpp>

#include "demand.hpp"
#include "says.hpp"
#include "trainings.hpp"

namespace pharos::ml::trainer {

/// Ranks report different values with different weights.
void weighs(TrainContext& context) {
  const double rank = context.rank();
  context.report(rank, {.weight = rank});
  demand(*context.last().find("loss") == 5.0 / 3, "all ranks know the mean");
  context.report({{"loss", rank}, {"size", static_cast<double>(context.size())}}, {.epoch = 7});
}
/// Reports one more metric in each 1001st step.
void goes_far(TrainContext& context) {
  while (context.step() < 25'000) {
    const auto step = static_cast<double>(context.step() + 1);
    if (std::fmod(step, 1001) == 0) {
      context.report({{"loss", 1 / step}, {"validation", step}});
    } else {
      context.report(1 / step);
    }
  }
}
void prints(TrainContext& context) {
  std::printf("rank %u is here\n", context.rank());
  std::fflush(stdout);
  std::fprintf(stderr, "and complains\n");
  context.report(1.0);
}
void goes_by_epochs(TrainContext& context) {
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) context.report({{"loss", 1.0}}, {.epoch = epoch});
}
void prints_and_throws(TrainContext& context) {
  context.report(1.0);
  if (context.rank() != 1) return;
  std::printf("last words of rank 1\n");
  throw std::runtime_error{"that was all"};
}

namespace {

/// Returns what this process writes to its standard error while `work` runs.
template <class Work>
std::string said_during(const Work& work) {
  testing::internal::CaptureStderr();
  EXPECT_NO_THROW(work());
  return testing::internal::GetCapturedStderr();
}

TEST_F(TrainerTest, MetricsAreMeansByWeight) {
  Runtime runtime;
  Trainer trainer{runtime, options(3)};
  const TrainResult result = trainer.run<&weighs>();
  ASSERT_EQ(result.reports.size(), 2U);
  EXPECT_DOUBLE_EQ(*result.reports[0].metrics.find("loss"), 5.0 / 3);
  EXPECT_DOUBLE_EQ(*result.reports[1].metrics.find("loss"), 1);
  EXPECT_DOUBLE_EQ(*result.reports[1].metrics.find("size"), 3);
  EXPECT_DOUBLE_EQ(*result.mean("loss"), (5.0 / 3 + 1) / 2);
  EXPECT_EQ(result.mean("size"), 3);
  EXPECT_FALSE(result.mean("accuracy"));
  EXPECT_EQ(result.reports[1].epoch, 7U);
  EXPECT_EQ(lines_of("reports.csv").at(0), "attempt,epoch,step,seconds,loss,size");
  EXPECT_TRUE(lines_of("reports.csv").at(2).starts_with("0,7,2,"));
  EXPECT_TRUE(lines_of("reports.csv").at(2).ends_with(",1,3"));
  EXPECT_TRUE(lines_of("reports.jsonl").at(1).ends_with("\"loss\":1,\"size\":3}"));
  EXPECT_EQ(scalars_in(folder_.path() / "run" / "tensorboard"), "loss 1 1.66666663\nloss 2 1\nsize 2 3\n");
}

TEST_F(TrainerTest, OfManyReportsThoseWithRareMetricsStay) {
  Runtime runtime;
  Trainer trainer{runtime, {.scaling = {.cpus_per_worker = 0}, .progress = false}};
  const TrainResult result = trainer.run<&goes_far>();
  EXPECT_LE(result.reports.size(), 10'000U);
  std::vector<std::uint64_t> rare;
  std::uint64_t before = 0;
  for (const TrainReport& each : result.reports) {
    EXPECT_LE(each.step - before, 5U) << "others stay evenly";
    before = each.step;
    if (each.metrics.find("validation") != nullptr) rare.push_back(each.step);
  }
  ASSERT_EQ(rare.size(), 24U);
  for (std::size_t i = 0; i < rare.size(); ++i) EXPECT_EQ(rare[i], 1001 * (i + 1));
  EXPECT_EQ(before, 25'000U);
  EXPECT_EQ(result.best->step, 25'000U);
}

TEST_F(TrainerTest, AMetricThatNoReportHasIsSaid) {
  Runtime runtime;
  const auto said_of = [&](TrainerOptions each) {
    each.scaling.cpus_per_worker = 0;
    each.progress = false;
    Trainer trainer{runtime, std::move(each)};
    return said_during([&] { trainer.run<&prints>(); });
  };
  EXPECT_EQ(said_of({}).find("no report"), std::string::npos);
  const std::string named = said_of({.metric = "accuracy", .callbacks = {early_stopping("validation_loss", 3)}});
  EXPECT_SAYS(named, "metric=validation_loss");
  EXPECT_EQ(named.find("metric=accuracy"), std::string::npos) << "one without a name is it";
  EXPECT_SAYS(named, "has=accuracy");
}

TEST_F(TrainerTest, AMetricThatDoesNotComeIsSaidWhenThatIsKnown) {
  Runtime runtime;
  const auto says_epoch = [](const TrainReport& report) {
    std::fprintf(stderr, "epoch %d is reported\n", static_cast<int>(report.epoch));
    return Verdict::kGoOn;
  };
  Trainer trainer{runtime,
                  {.scaling = {.cpus_per_worker = 0},
                   .callbacks = {early_stopping("lost", 3), early_stopping("accuracy", 3),
                                 early_stopping("validation_lost", 3), says_epoch},
                   .progress = false}};
  const std::string said = said_during([&] { trainer.run<&goes_by_epochs>(); });
  EXPECT_SAYS(said, "metric=validation_lost");
  const std::size_t misspelt = said.find("metric=lost");
  EXPECT_LT(misspelt, said.find("epoch 0 is reported")) << "the first report has a similar name: " << said;
  EXPECT_SAYS(said.substr(misspelt), "has=loss similar=loss");
  EXPECT_EQ(said.find("metric=lost", misspelt + 1), std::string::npos) << "it is said once: " << said;
  const std::size_t other = said.find("metric=accuracy");
  EXPECT_LT(said.find("epoch 0 is reported"), other) << "a later step may report it: " << said;
  EXPECT_LT(other, said.find("epoch 1 is reported")) << said;
  EXPECT_SAYS(said.substr(other), "similar=none");
  EXPECT_LT(said.find("epoch 2 is reported"), said.find("metric=validation_lost"))
      << "there was no validation: " << said;
}

TEST_F(TrainerTest, EpochsAreCountedFromOneForWhoWatches) {
  Runtime runtime;
  TrainerOptions each = options(3);
  each.progress = true;
  Trainer trainer{runtime, std::move(each)};
  EXPECT_SAYS(said_during([&] { trainer.run<&weighs>(); }), "step 2, epoch 8, ");
}

TEST_F(TrainerTest, WhatCannotBeWrittenWaitsAndTheTrainingGoesOn) {
  Runtime runtime;
  const fs::path board = folder_.path() / "run" / "tensorboard";
  const fs::path events = board / "events.out.tfevents.pharos";
  fs::create_directories(board);
  fs::create_symlink("/dev/full", events);
  TrainerOptions each = options(2);
  each.callbacks = {[&](const TrainReport& report) {
    if (report.step == kSteps) fs::remove(events);  // the next write has room
    return Verdict::kGoOn;
  }};
  Trainer trainer{runtime, std::move(each)};
  TrainResult result;
  const std::string said = said_during([&] { result = trainer.run<&train>(Mishap{}, kSteps); });
  expect_all_steps(result, 2);
  const std::string what = "reports of a training cannot be written";
  EXPECT_SAYS(said, what);
  EXPECT_EQ(said.find(what), said.rfind(what)) << said;
  EXPECT_SAYS(said, "No space left on device");
  EXPECT_EQ(lines_in(scalars_in(board)), 2 * kSteps);
  EXPECT_EQ(lines_of("reports.jsonl").size(), kSteps);
}

TEST_F(TrainerTest, RanksWhoseLogsCannotBeWrittenTrain) {
  Runtime runtime;
  fs::create_directories(folder_.path() / "run");
  std::ofstream{folder_.path() / "run" / "logs"} << "in the way";
  Trainer trainer{runtime, options(2)};
  const std::string said = said_during([&] { EXPECT_EQ(trainer.run<&prints>().steps, 1U); });
  EXPECT_SAYS(said, "run/logs");
}

TEST_F(TrainerTest, ARecordOfTensorBoardThatIsCutShortHidesNothing) {
  const fs::path board = folder_.path() / "board";
  const auto add = [&](std::uint64_t step) {
    TensorBoardFile file{board, 1};
    file.add(1, step, {{"loss", static_cast<double>(step)}});
    ASSERT_TRUE(file.write());
  };
  add(1);
  add(2);
  const fs::path events = board / "events.out.tfevents.pharos";
  const std::uintmax_t whole = fs::file_size(events);
  for (const std::uintmax_t cut : {1U, 20U, 40U}) {
    fs::resize_file(events, whole);
    add(3);
    fs::resize_file(events, fs::file_size(events) - cut);
    add(4);
    EXPECT_EQ(scalars_in(board), "loss 1 1\nloss 2 2\nloss 4 4\n") << cut;
  }
}

TEST_F(TrainerTest, WhatRanksPrintIsInTheFolder) {
  Runtime runtime;
  Trainer trainer{runtime, options(2)};
  trainer.run<&prints>();
  trainer.run<&prints>();
  for (const int rank : {0, 1}) {
    const std::string name = std::to_string(rank);
    const auto lines = lines_of("logs/rank-" + name + ".log");
    EXPECT_EQ(std::ranges::count(lines, "rank " + name + " is here"), 2);  // the lines of the first training stay
    EXPECT_EQ(std::ranges::count(lines, "and complains"), 2);
  }
}

TEST_F(TrainerTest, WhatARankPrintsBeforeItThrowsIsInTheFolderToo) {
  Runtime runtime;
  Trainer trainer{runtime, options(2)};
  const std::string text = message_of<UserError>([&] { trainer.run<&prints_and_throws>(); });
  EXPECT_SAYS(text, "that was all");
  EXPECT_EQ(lines_of("logs/rank-1.log"), std::vector<std::string>{"last words of rank 1"});
}

}  // namespace
}  // namespace pharos::ml::trainer
