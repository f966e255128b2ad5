// Trainings: their inputs, their checkpoints, and where they stop.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/distributed.hpp>
#include <pharos/ml/trainer.hpp>
#include <pharos/pharos.hpp>

#include "demand.hpp"
#include "says.hpp"
#include "trainings.hpp"

namespace pharos::ml::trainer {

using namespace std::chrono_literals;

void is_alone(TrainContext& context, const std::string& text, std::vector<double> data) {
  demand(text == "text", "it has the text");
  demand(context.size() == 1, "it is alone");
  context.report(data.at(1));
}
void has_a_gpu(TrainContext& context, int given) {
  context.report({{"gpus", static_cast<double>(pharos::context().gpus.size())},
                  {"ranks", static_cast<double>(context.size())},
                  {"given", given}});
}
void goes_on_for_ever(TrainContext& context) {
  Weights weights;
  context.resume(weights.state());
  for (;;) {
    std::this_thread::sleep_for(1ms);  // simulated work
    if (context.report(weights.step(context)) != Verdict::kGoOn) return;
  }
}
void hangs_when_told(TrainContext& context) {
  while (context.report(1.0) == Verdict::kGoOn) {
    std::this_thread::sleep_for(1ms);  // simulated work
    while (context.step() == 20) ::pause();
  }
}
/// Is best in its seventh step. Saves when it is asked to, and also of its own accord.
void is_best_once(TrainContext& context) {
  Weights weights;
  context.resume(weights.state());
  while (context.step() < 12) {
    weights.step(context);
    const double value = std::abs(static_cast<double>(context.step()) - 5.75);
    context.report({{"loss", value}}, {.save = context.rank() == 1});
  }
}
void becomes_worse(TrainContext& context) {
  for (;;) {
    const auto step = static_cast<double>(context.step());
    if (context.report({{"loss", std::abs(step - 10)}}) != Verdict::kGoOn) return;
  }
}

namespace {

/// Sets variables of this process's environment, for as long as this object lives.
class Variables {
 public:
  Variables(std::initializer_list<std::pair<const char*, const char*>> all) {
    for (const auto& [name, value] : all) {
      ::setenv(name, value, 1);
      names_.emplace_back(name);
    }
  }
  Variables(Variables&&) = delete;
  ~Variables() {
    for (const std::string& each : names_) ::unsetenv(each.c_str());
  }

 private:
  std::vector<std::string> names_;
};

TEST_F(TrainerTest, RanksTrainTogether) {
  Runtime runtime;
  for (const std::uint32_t ranks : {1U, 3U}) {
    TrainerOptions each = options(ranks);
    each.folder = folder_.path() / std::to_string(ranks);
    each.save_every = 0;
    Trainer trainer{runtime, std::move(each)};
    const TrainResult result = trainer.run<&train>(Mishap{}, kSteps);
    ASSERT_EQ(result.reports.size(), kSteps);
    EXPECT_NEAR(*result.last("loss"), expected(kSteps, ranks), 1e-9);
    EXPECT_EQ(result.best->step, 1U);
    EXPECT_TRUE(result.interruptions.empty());
  }
}

TEST_F(TrainerTest, FunctionsAreGivenWhatRunIs) {
  Runtime runtime;
  Trainer trainer{runtime, {.scaling = {.cpus_per_worker = 0}, .progress = false}};
  const auto data = runtime.put(std::vector<double>{1, 2.5});
  EXPECT_EQ(trainer.run<&is_alone>("text", data).last("loss"), 2.5);
}

TEST_F(TrainerTest, OneCallTrainsOnGpusOfAType) {
  const Variables variables{{"PHAROS_RESOURCES", "cpu=2,gpu=3"}, {"PHAROS_LABELS", "gpu_type=A10"}};
  const TrainResult result = distributed<&has_a_gpu>({.gpus = 2, .gpu_type = "A10", .trainer = {.progress = false}}, 7);
  EXPECT_EQ(result.last("gpus"), 1);
  EXPECT_EQ(result.last("ranks"), 2);
  EXPECT_EQ(result.last("given"), 7);
  const std::string text = message_of<InvalidArgument>(
      [&] { distributed<&has_a_gpu>({.gpus = 4, .gpu_type = "A10", .trainer = {.progress = false}}, 7); });
  EXPECT_SAYS(text, "GPU");
  const std::string other = message_of<InvalidArgument>(
      [&] { distributed<&has_a_gpu>({.gpus = 2, .gpu_type = "T4", .trainer = {.progress = false}}, 7); });
  EXPECT_SAYS(other, "gpu_type");
  EXPECT_SAYS(message_of<InvalidArgument>([&] { distributed<&has_a_gpu>({}, 7); }), "DistributedOptions::gpus");
  EXPECT_EQ(distributed<&has_a_gpu>({.workers = 2, .trainer = {.progress = false}}, 7).last("gpus"), 0);
}

TEST_F(TrainerTest, OptionsThatMakeNoSenseAreRefused) {
  Runtime runtime;
  const auto refusal = [&](TrainerOptions given) {
    return message_of<InvalidArgument>([&] { Trainer{runtime, std::move(given)}; });
  };
  EXPECT_SAYS(refusal({.scaling = {.workers = 0}}), "Scaling::workers is 0");
  EXPECT_SAYS(refusal({.save_every = 5}), "TrainerOptions::folder");
  EXPECT_SAYS(refusal({.keep_best = 1}), "TrainerOptions::folder");
  EXPECT_SAYS(refusal({.timeout = 0s}), "timeout");
}

TEST_F(TrainerTest, OneThatHasTimeStopsWithACheckpointOfItsLastStep) {
  Runtime runtime;
  TrainerOptions timed = options(2);
  timed.time = 500ms;
  timed.save_every = 0;
  Trainer trainer{runtime, std::move(timed)};
  const TrainResult result = trainer.run<&goes_on_for_ever>();
  EXPECT_EQ(result.end, End::kStopped);
  EXPECT_GT(result.steps, 0U);
  EXPECT_EQ(checkpoints().at(0).moment.step, result.steps);

  // The training resumes from there.
  TrainerOptions again = options(2);
  again.callbacks = {[](const TrainReport& report) { return report.step < 1000 ? Verdict::kGoOn : Verdict::kStop; }};
  const TrainResult more = Trainer{runtime, std::move(again)}.run<&goes_on_for_ever>();
  EXPECT_EQ(more.reports.front().step, result.steps + 1);
  EXPECT_GE(more.steps, 1000U);
  EXPECT_TRUE(more.why_unsaved.empty());
  // The reports in the folder are those of both runs.
  ASSERT_EQ(lines_of("reports.jsonl").size(), more.steps);
  const std::vector<std::string> lines = lines_of("reports.csv");
  ASSERT_EQ(lines.size(), more.steps + 1);
  for (std::uint64_t step = 1; step <= more.steps; ++step) {
    const std::string attempt = step <= result.steps ? "0" : "1";
    EXPECT_TRUE(lines[step].starts_with(attempt + ",0," + std::to_string(step) + ",")) << lines[step];
  }
}

TEST_F(TrainerTest, OneThatDoesNotStopInItsGraceSaysSo) {
  Runtime runtime;
  TrainerOptions timed = options(2);
  timed.callbacks = {[](const TrainReport& report) { return report.step < 20 ? Verdict::kGoOn : Verdict::kStop; }};
  timed.save_every = 0;
  timed.grace = 300ms;
  const TrainResult result = Trainer{runtime, std::move(timed)}.run<&hangs_when_told>();
  EXPECT_EQ(result.end, End::kStopped);
  EXPECT_EQ(result.steps, 20U);
  EXPECT_SAYS(result.why_unsaved, "did not stop in time");
}

TEST_F(TrainerTest, TheBestCheckpointsStayAndThoseThatAFunctionWants) {
  Runtime runtime;
  TrainerOptions choosy = options(2);
  choosy.save_every = 0;
  choosy.keep_last = 1;
  choosy.keep_best = 2;
  Trainer{runtime, std::move(choosy)}.run<&is_best_once>();
  std::vector<std::uint64_t> steps;
  for (const SavedCheckpoint& each : checkpoints()) steps.push_back(each.moment.step);
  std::ranges::sort(steps);
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{6, 7, 12}));
}

TEST_F(TrainerTest, EarlyStoppingEndsWhatDoesNotBecomeBetter) {
  Runtime runtime;
  TrainerOptions patient = options(2);
  patient.callbacks = {early_stopping("loss", 20)};
  const TrainResult result = Trainer{runtime, std::move(patient)}.run<&becomes_worse>();
  EXPECT_EQ(result.end, End::kStopped);
  EXPECT_EQ(result.best->step, 11U);
  EXPECT_EQ(*result.best->metrics.find("loss"), 0);
  EXPECT_GE(result.steps, 31U);
}

TEST_F(TrainerTest, EachRunBeginsWithCallbacksAsTheyWereGiven) {
  Runtime runtime;
  std::vector<std::uint64_t> stopped_at;
  const auto first_stop = [stops = early_stopping("loss", 20), &stopped_at,
                           has_stopped = false](const TrainReport& report) mutable {
    const Verdict verdict = stops(report);
    if (verdict != Verdict::kGoOn && !std::exchange(has_stopped, true)) stopped_at.push_back(report.step);
    return verdict;
  };
  Trainer trainer{runtime, {.scaling = {.cpus_per_worker = 0}, .callbacks = {first_stop}, .progress = false}};
  for (int i = 0; i < 2; ++i) EXPECT_EQ(trainer.run<&becomes_worse>().end, End::kStopped);
  EXPECT_EQ(stopped_at, (std::vector<std::uint64_t>{31, 31}));
}

TEST_F(TrainerTest, EarlyStoppingCountsStepsThatAreDoneAgainOnce) {
  const TrainCallback callback = early_stopping("loss", 4);
  const auto told = [&](std::uint64_t step) {
    return callback({.step = step, .metrics = {{"loss", static_cast<double>(step)}}});
  };
  for (const std::uint64_t step : {1U, 2U, 3U, 4U, 2U, 3U, 4U}) EXPECT_EQ(told(step), Verdict::kGoOn) << step;
  EXPECT_EQ(told(5), Verdict::kStop);
}

TEST_F(TrainerTest, WhatACallbackThrowsIsThrownWhenTheTrainingHasStoppedWithACheckpoint) {
  Runtime runtime;
  TrainerOptions each = options(2);
  each.save_every = 0;
  std::uint64_t newest = 0;
  each.callbacks = {[&](const TrainReport& report) {
    newest = report.step;
    if (report.step == 20) throw std::logic_error{"it cannot count so far"};
    return Verdict::kGoOn;
  }};
  Trainer trainer{runtime, std::move(each)};
  EXPECT_SAYS(message_of<std::logic_error>([&] { trainer.run<&goes_on_for_ever>(); }), "it cannot count so far");
  EXPECT_EQ(newest, 20U) << "it was asked again";
  ASSERT_EQ(checkpoints().size(), 1U);
  EXPECT_GE(checkpoints()[0].moment.step, 20U);
}

}  // namespace
}  // namespace pharos::ml::trainer
