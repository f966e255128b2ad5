// Learners on groups of actors: every strategy gives the same curve, and the reports say how.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/pharos.hpp>

#include "demand.hpp"
#include "fitting.hpp"
#include "lies_in_file.hpp"
#include "says.hpp"

namespace pharos::ml::fitting {

/// Has more units than can be gathered at once.
struct DeepPoints : Points {
  explicit DeepPoints(std::uint64_t dies_at)
      : Points{dies_at, torch::nn::Sequential{Linear(2, 16), Tanh(), Linear(16, 12), Tanh(), Linear(12, 12), Tanh(),
                                              Linear(12, 8), Tanh(), Linear(8, 3)}} {}

 private:
  using Linear = torch::nn::Linear;
  using Tanh = torch::nn::Tanh;
};

/// Its validation value is best in the middle of the training.
struct BestInTheMiddle : Points {
  using Points::Points;

  Metrics validation_step(const Batch&) override { return std::abs(static_cast<double>(context().step()) - 20); }
};

/// One rank validates late, so the other ranks wait for its parameters in validation.
struct LateInValidation : Points {
  using Points::Points;
  static constexpr std::chrono::milliseconds kLate{1000};

  Metrics validation_step(const Batch& batch) override {
    const bool is_first = std::exchange(validated_at_, context().step()) != context().step();
    if (is_first && context().rank() == 1) std::this_thread::sleep_for(kLate);  // simulated work
    return Points::validation_step(batch);
  }

 private:
  std::uint64_t validated_at_ = 0;
};

/// Demands that gradients are divided at any time, even if gradients of several batches are added up.
struct InParts : Points {
  using Points::Points;

  Tensor training_step(const Batch& batch) override {
    for (const Tensor& each : module().parameters()) demand(!each.grad().defined(), "no gradient is whole");
    return Points::training_step(batch);
  }
};

/// A learner whose steps take time.
struct Slow : Points {
  using Points::Points;
  static constexpr std::chrono::milliseconds kStep{40};

  Tensor training_step(const Batch& batch) override {
    std::this_thread::sleep_for(kStep);  // simulated work
    return Points::training_step(batch);
  }
  Optimization configure_optimizers() override { return {}; }
};

enum class Phase : std::uint8_t { kData, kForward, kBackward, kLateForward, kLateBackward };

/// Rows that take time to read.
class SlowRows final : public Dataset {
 public:
  SlowRows(DatasetPtr rows, Duration time) : rows_{std::move(rows)}, time_{time} {}

  std::uint64_t size() const override { return rows_->size(); }
  const std::vector<Field>& fields() const override { return rows_->fields(); }
  void read(std::uint64_t sample, std::uint64_t chance, std::span<const std::span<std::byte>> to) const override {
    std::this_thread::sleep_for(time_);  // simulated work
    rows_->read(sample, chance, to);
  }

 private:
  const DatasetPtr rows_;
  const Duration time_;
};

/// One phase takes time, and the other phases take almost none.
struct SlowPhase : Points {
  static constexpr std::chrono::milliseconds kTime{40};
  explicit SlowPhase(Phase phase) : Points{0}, phase_{phase} {}

  DatasetPtr training_data() override {
    if (phase_ != Phase::kData) return Points::training_data();
    return std::make_shared<SlowRows>(Points::training_data(), kTime);
  }
  Tensor training_step(const Batch& batch) override {
    const bool is_late = context().rank() == 1;  // the other rank waits for this one
    if (phase_ == Phase::kForward || (phase_ == Phase::kLateForward && is_late)) take_time();
    Tensor loss = Points::training_step(batch);
    if (phase_ == Phase::kBackward || (phase_ == Phase::kLateBackward && is_late)) {
      loss.register_hook([](const Tensor&) { take_time(); });
    }
    return loss;
  }
  static void take_time() { std::this_thread::sleep_for(kTime); }  // simulated work

 private:
  const Phase phase_;
};

/// The module is made in a file, and the tensors that it makes in training lie in memory.
struct MadeOnDisk : Learner {
  MadeOnDisk() { demand(lies_in_file(net_->weight.const_data_ptr()), "the module lies in a file"); }

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return rows_of({{"x", array_of(torch::ones({4, 1024}))}}); }
  Tensor training_step(const Batch& batch) override {
    demand(!lies_in_file(torch::zeros({1 << 20}).const_data_ptr()), "what is learned lies in memory");
    return net_->forward(tensor_of(batch["x"])).square().mean();
  }

 private:
  torch::nn::Linear net_{1024, 1024};
};

/// Its loss is 1000 w, and w begins at 0: each step is as long as the clipping allows.
struct Steep : Learner {
  explicit Steep(double clip_norm) : clip_norm_{clip_norm} {
    const torch::NoGradGuard no_grad;
    net_->weight.zero_();
  }

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return rows_of({{"x", array_of(torch::ones({24, 1}))}}); }
  Tensor training_step(const Batch& batch) override { return net_->forward(tensor_of(batch["x"])).mean() * 1000; }
  Optimization configure_optimizers() override { return {.rule = Sgd{.lr = 1}, .clip_norm = clip_norm_}; }

 private:
  const double clip_norm_;
  torch::nn::Linear net_{torch::nn::LinearOptions{1, 1}.bias(false)};
};

/// Learns in bfloat16 in which of three stripes a point lies.
struct Halves : Learner {
  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override {
    auto random = at::make_generator<at::CPUGeneratorImpl>(1);
    const Tensor points = torch::randn({64, 2}, random);
    const Tensor classes = points.sum(1).gt(0.5).to(torch::kLong) + points.sum(1).gt(-0.5).to(torch::kLong);
    return rows_of({{"point", array_of(points)}, {"class", array_of(classes)}});
  }
  Tensor training_step(const Batch& batch) override {
    const Tensor out = net_->forward(tensor_of(batch["point"]).to(torch::kBFloat16));
    demand(out.scalar_type() == torch::kBFloat16, "the module computes in bfloat16");
    return torch::cross_entropy_loss(out.to(torch::kFloat), tensor_of(batch["class"]));
  }
  Optimization configure_optimizers() override { return {.rule = AdamW{.lr = 0.03}}; }

 private:
  torch::nn::Sequential net_{torch::nn::Linear(2, 16), torch::nn::BatchNorm1d(16), torch::nn::Tanh(),
                             torch::nn::Linear(16, 3)};
};

namespace {

TEST_F(FitTest, LearnsTheSameByEveryStrategyAndOnAnyNumberOfRanks) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  const auto seldom_saved = [this](const std::string& name, std::size_t workers) {
    TrainerOptions its = options(name, workers);
    its.save_every = 100;
    return its;
  };
  Trainer alone{runtime, seldom_saved("alone", 1)};
  const TrainResult one = fit<DeepPoints>(alone, {.batch = 12, .epochs = kEpochs}, std::uint64_t{0});
  EXPECT_EQ(one.steps, kPointsSteps);
  EXPECT_GT(*one.last(kValidated), 0.8);
  EXPECT_LT(*one.last("validation_loss"), *one.reports[8].metrics.find("validation_loss"));
  for (const std::size_t ranks : {2U, 3U}) {
    for (const FitStrategy each :
         {FitStrategy::kByMemory, FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, strategy " + std::to_string(static_cast<int>(each)));
      const std::string name = std::to_string(ranks) + "-" + std::to_string(static_cast<int>(each));
      Trainer trainer{runtime, seldom_saved(name, ranks)};
      const TrainResult many =
          fit<DeepPoints>(trainer, {.batch = 12 / ranks, .epochs = kEpochs, .strategy = each}, std::uint64_t{0});
      ASSERT_EQ(many.steps, one.steps);
      for (std::size_t i = 0; i < one.steps; ++i) EXPECT_NEAR(losses(many)[i], losses(one)[i], 1e-9) << i;
      // Each of the 37 validation samples counts once.
      EXPECT_NEAR(*many.last(kValidated), *one.last(kValidated), 1e-12);
      EXPECT_NEAR(*many.last("validation_loss"), *one.last("validation_loss"), 1e-9);
    }
  }
}

TEST_F(FitTest, AccumulatedBatchesAreOneLargeOne) {
  Runtime runtime;
  Trainer large{runtime, options("large", 2)};
  const TrainResult whole = fit<Points>(large, {.batch = 6, .epochs = 2}, std::uint64_t{0});
  const FitOptions in_parts{.batch = 2, .accumulate = 3, .epochs = 2};
  for (const FitStrategy each :
       {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard}) {
    SCOPED_TRACE(static_cast<int>(each));
    Trainer small{runtime, options("small" + std::to_string(static_cast<int>(each)), 2)};
    FitOptions how = in_parts;
    how.strategy = each;
    const bool is_divided = each == FitStrategy::kZero2 || each == FitStrategy::kFullyShard;
    const TrainResult parts =
        is_divided ? fit<InParts>(small, how, std::uint64_t{0}) : fit<Points>(small, how, std::uint64_t{0});
    ASSERT_EQ(parts.steps, whole.steps);
    for (std::size_t i = 0; i < whole.steps; ++i) EXPECT_NEAR(losses(parts)[i], losses(whole)[i], 1e-9) << i;
  }
}

TEST_F(FitTest, TheBestValidatedStepStays) {
  Runtime runtime;
  TrainerOptions choosy = options("choosy", 2);
  choosy.save_every = 100;
  choosy.keep_last = 1;
  choosy.keep_best = 1;
  choosy.metric = "validation_loss";
  Trainer trainer{runtime, std::move(choosy)};
  const TrainResult result = fit<BestInTheMiddle>(trainer, {.batch = 6, .epochs = 4}, std::uint64_t{0});
  EXPECT_EQ(result.best->step, 18U);
  const auto saved = checkpoints_in(folder_.path() / "choosy" / "checkpoints");
  ASSERT_EQ(saved.size(), 2U);
  EXPECT_EQ(saved[0].moment.step, 36U);
  EXPECT_EQ(saved[1].moment.step, 18U);
}

TEST_F(FitTest, AnotherSeedIsAnotherTraining) {
  Runtime runtime;
  const auto losses_of = [&](const std::string& name, std::uint64_t seed) {
    TrainerOptions its = options(name, 2);
    its.seed = seed;
    Trainer trainer{runtime, std::move(its)};
    return losses(fit<Points>(trainer, {.batch = 6}, std::uint64_t{0}));
  };
  const std::vector<double> first = losses_of("first", 3);
  EXPECT_EQ(losses_of("same", 3), first);
  const std::vector<double> other = losses_of("other", 4);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NE(other[i], first[i]) << i;
}

TEST_F(FitTest, GradientsAreNoLongerThanTheyMayBe) {
  Runtime runtime;
  int tries = 0;
  const auto expect_steps_of = [&](double length, double clip_norm, FitStrategy strategy, std::size_t ranks) {
    SCOPED_TRACE("strategy " + std::to_string(static_cast<int>(strategy)) + " on " + std::to_string(ranks));
    Trainer trainer{runtime, options("steep" + std::to_string(++tries), ranks)};
    const FitOptions how{.batch = 6, .epochs = 0, .steps = 3, .strategy = strategy};
    const TrainResult result = fit<Steep>(trainer, how, clip_norm);
    ASSERT_EQ(result.steps, 3U);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(losses(result)[i], -1000 * length * static_cast<double>(i), length / 100);
  };
  for (const FitStrategy each :
       {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard}) {
    expect_steps_of(0.5, 0.5, each, 2);
    expect_steps_of(1000, 0, each, 2);
  }
  expect_steps_of(0.5, 0.5, FitStrategy::kCopies, 1);
}

TEST_F(FitTest, SamplesPerSecondAreThoseOfAllRanks) {
  Runtime runtime;
  Trainer trainer{runtime, options("slow", 2)};
  const TrainResult result = fit<Slow>(trainer, {.batch = 6, .epochs = 2, .validate_every = 0}, std::uint64_t{0});
  ASSERT_EQ(result.steps, 18U);
  double seconds = 0;
  for (std::size_t i = 1; i < result.steps; ++i) {
    const double samples = i % 9 == 8 ? Points::kTraining % 12 : 12;
    seconds += samples / *result.reports[i].metrics.find("samples_per_second");
  }
  const double all = result.reports.back().seconds - result.reports.front().seconds;
  EXPECT_NEAR(seconds, all, all / 4);
}

TEST_F(FitTest, ReportsWhatPeopleWantToKnow) {
  Runtime runtime;
  TrainResult result;
  for (const FitStrategy each : {FitStrategy::kFullyShard, FitStrategy::kCopies}) {
    SCOPED_TRACE(static_cast<int>(each));
    Trainer trainer{runtime, options("phases" + std::to_string(static_cast<int>(each)), 2)};
    const FitOptions how{
        .batch = 6, .epochs = 1, .strategy = each, .report_phases = true, .flops_per_sample = 1000, .peak_flops = 1e6};
    const double began = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    result = fit<Points>(trainer, how, std::uint64_t{0});
    double sum = 0;
    for (const char* const name : {"data_s", "forward_s", "backward_s", "communication_s", "optimizer_s"}) {
      for (const TrainReport& report : result.reports) {
        const double* const seconds = report.metrics.find(name);
        ASSERT_NE(seconds, nullptr) << name;
        EXPECT_GE(*seconds, 0) << name << " of step " << report.step;
        sum += *seconds;
      }
    }
    EXPECT_GT(sum, 0);
    EXPECT_LT(sum, std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count() - began);
  }
  EXPECT_TRUE(result.last("samples_per_second"));
  EXPECT_NEAR(*result.last("mfu"), 1000 * *result.last("samples_per_second") / 2e6, 1e-6);
  EXPECT_NEAR(*result.reports[1].metrics.find("lr"), 0.03 * Points::schedule()(1), 1e-12);
}

TEST_F(FitTest, WhatTakesLongIsInItsPhase) {
  Runtime runtime;
  constexpr std::pair<Phase, const char*> kPhases[] = {{Phase::kData, "data_s"},
                                                       {Phase::kForward, "forward_s"},
                                                       {Phase::kBackward, "backward_s"},
                                                       {Phase::kLateForward, "communication_s"},
                                                       {Phase::kLateBackward, "communication_s"}};
  for (const FitStrategy strategy :
       {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard}) {
    for (const auto& [phase, name] : kPhases) {
      const std::string where =
          std::to_string(static_cast<int>(phase)) + " by " + std::to_string(static_cast<int>(strategy));
      SCOPED_TRACE(where);
      Trainer trainer{runtime, options(where, 2)};
      const FitOptions how{.batch = 6, .epochs = 1, .strategy = strategy, .report_phases = true};
      const TrainResult result = fit<SlowPhase>(trainer, how, phase);
      ASSERT_EQ(result.steps, 9U);
      double seconds = 0;
      for (const TrainReport& each : result.reports) seconds += *each.metrics.find(name);
      // The value is the mean over two ranks, of which one is slow. The first batches are loaded before the first step
      // asks for them.
      EXPECT_GT(seconds, 0.4 * 9 * std::chrono::duration<double>(SlowPhase::kTime).count());
    }
  }
}

TEST_F(FitTest, WhatAValidationWaitsForIsNoPhaseOfTheNextStep) {
  Runtime runtime;
  Trainer trainer{runtime, options("late", 2)};
  const TrainResult result = fit<LateInValidation>(
      trainer, {.batch = 6, .epochs = 2, .strategy = FitStrategy::kFullyShard, .report_phases = true},
      std::uint64_t{0});
  ASSERT_EQ(result.steps, 18U);
  for (const TrainReport& report : result.reports) {
    double sum = 0;
    for (const char* const name : {"data_s", "forward_s", "backward_s", "communication_s", "optimizer_s"}) {
      EXPECT_GE(*report.metrics.find(name), 0) << name << " of step " << report.step;
      sum += *report.metrics.find(name);
    }
    const double late = std::chrono::duration<double>(LateInValidation::kLate).count() / 2;  // the mean over two ranks
    EXPECT_LT(sum, late) << report.step;
  }
}

TEST_F(FitTest, LearnsInHalvesByEveryStrategy) {
  Runtime runtime;
  std::vector<double> copies;
  for (const FitStrategy each :
       {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard}) {
    SCOPED_TRACE(static_cast<int>(each));
    Trainer trainer{runtime, options("halves" + std::to_string(static_cast<int>(each)), 2)};
    const TrainResult result = fit<Halves>(trainer, {.batch = 8, .epochs = 15, .strategy = each, .bf16 = true});
    const std::vector<double> loss = losses(result);
    EXPECT_LT(loss.back(), 0.5 * loss.front());
    if (copies.empty()) copies = loss;
    ASSERT_EQ(loss.size(), copies.size());
    for (std::size_t i = 0; i < loss.size(); ++i) EXPECT_NEAR(loss[i], copies[i], 0.02 * copies[0]) << "step " << i + 1;
  }
}

TEST_F(FitTest, DividesWhatDoesNotFit) {
  Runtime runtime;
  const auto train = [&](const std::string& name, std::uint64_t memory) {
    Trainer trainer{runtime, options(name, 2)};
    return fit<Points>(trainer, {.batch = 6, .epochs = 1, .memory = memory}, std::uint64_t{0});
  };
  const auto log_of = [this](const std::string& name) {
    std::ifstream log{folder_.path() / name / "logs/rank-0.log"};
    return std::string{std::istreambuf_iterator<char>{log}, {}};
  };
  const TrainResult roomy = train("roomy", 1'000'000);
  EXPECT_SAYS(log_of("roomy"), "99 parameters on 2 ranks");
  EXPECT_SAYS(log_of("roomy"), "* copies        3.1 KiB\n");
  const TrainResult tight = train("tight", 2'800);
  // Two layers, of 48 and 51 doubles, have whole gradients at once.
  EXPECT_SAYS(log_of("tight"), "in memory that all ranks read, and 0.8 KiB of gradients are whole at a time");
  EXPECT_SAYS(log_of("tight"), "  copies        3.1 KiB, too much\n");
  EXPECT_SAYS(log_of("tight"), "* zero1         1.9 KiB\n");
  EXPECT_SAYS(log_of("tight"), "  zero2         2.3 KiB\n");
  EXPECT_SAYS(log_of("tight"), "  fsdp          2.3 KiB\n");
  EXPECT_SAYS(log_of("tight"), "All ranks read the same memory");
  ASSERT_EQ(tight.steps, roomy.steps);
  for (std::size_t i = 0; i < roomy.steps; ++i) EXPECT_NEAR(losses(tight)[i], losses(roomy)[i], 1e-9) << i;
}

TEST_F(FitTest, MayBeMadeOnADisk) {
  Runtime runtime;
  Trainer trainer{runtime, options("on-disk", 2)};
  const FitOptions how{.batch = 1, .epochs = 2, .strategy = FitStrategy::kFullyShard, .made_in = "/var/tmp"};
  const std::vector<double> found = losses(fit<MadeOnDisk>(trainer, how));
  ASSERT_EQ(found.size(), 4U);
  EXPECT_LT(found.back(), found.front());
}

TEST(StrategyChoice, TakesWhatFits) {
  const auto of = [](std::uint64_t memory) { return choose_strategy({.parameters = 1'000'000}, 4, memory); };
  EXPECT_EQ(of(16'000'000).strategy, FitStrategy::kCopies);
  EXPECT_EQ(of(15'999'999).strategy, FitStrategy::kZero1);
  EXPECT_EQ(of(10'000'000).strategy, FitStrategy::kZero1);
  EXPECT_EQ(of(9'999'999).strategy, FitStrategy::kZero2);
  EXPECT_EQ(of(7'000'000).strategy, FitStrategy::kZero2);
  EXPECT_EQ(of(6'999'999).strategy, FitStrategy::kFullyShard);
  EXPECT_SAYS(of(6'999'999).arithmetic, "1000000 parameters on 4 ranks: 3.8 MiB of parameters");
  EXPECT_SAYS(of(6'999'999).arithmetic, "* fsdp          3.8 MiB\n");
  EXPECT_SAYS(of(6'999'999).arithmetic, "  copies        15.3 MiB, too much\n");
  EXPECT_EQ(choose_strategy({.parameters = 1'000'000}, 1, 1).strategy, FitStrategy::kCopies);
  // Units that are gathered for a while are counted.
  const auto in_units = [](std::uint64_t memory) {
    return choose_strategy({.parameters = 1'000'000, .gathered_bytes = 600'000, .gradient_bytes = 400'000}, 4, memory);
  };
  EXPECT_EQ(in_units(7'400'000).strategy, FitStrategy::kZero2);
  EXPECT_EQ(in_units(7'399'999).strategy, FitStrategy::kFullyShard);
  EXPECT_SAYS(in_units(5'000'000).arithmetic, "* fsdp          4.8 MiB\n");
  EXPECT_SAYS(in_units(4'999'999).arithmetic, "* fsdp          4.8 MiB, too much\n");
  // ZeRO takes less than full sharding if the module has a few large units.
  const FitSize one_unit{.parameters = 1'000'000, .gathered_bytes = 12'000'000, .gradient_bytes = 8'000'000};
  EXPECT_EQ(choose_strategy(one_unit, 4, 1).strategy, FitStrategy::kZero1);
  // Ranks that share memory have no parameter twice.
  const auto in_place = [](std::uint64_t memory) {
    return choose_strategy({.parameters = 1'000'000, .reads_in_place = true, .gradient_bytes = 400'000}, 4, memory);
  };
  EXPECT_EQ(in_place(7'000'000).strategy, FitStrategy::kZero1);
  EXPECT_EQ(in_place(6'999'999).strategy, FitStrategy::kZero2);
  EXPECT_SAYS(in_place(6'999'999).arithmetic, "memory that all ranks read, and 390.6 KiB of gradients are whole");
  EXPECT_SAYS(in_place(6'999'999).arithmetic, "* zero2         4.2 MiB\n  fsdp          4.2 MiB\n");
  // A small part is trained, and a much larger part is frozen.
  const auto frozen = [](std::uint64_t memory) {
    return choose_strategy({.parameters = 1'000'000, .frozen_bytes = 100'000'000}, 4, memory);
  };
  EXPECT_EQ(frozen(116'000'000).strategy, FitStrategy::kCopies);
  EXPECT_EQ(frozen(106'999'999).strategy, FitStrategy::kFullyShard);
  EXPECT_SAYS(frozen(1).arithmetic, "95.4 MiB that is not trained");
}

TEST(FitStrategies, HaveNamesThatProgramsReadBack) {
  for (const FitStrategy each : {FitStrategy::kByMemory, FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kZero2,
                                 FitStrategy::kFullyShard}) {
    EXPECT_EQ(strategy_named(name_of(each)), each) << name_of(each);
    EXPECT_FALSE(summary_of(each).empty()) << name_of(each);
  }
  EXPECT_EQ(strategy_named("fsdp"), FitStrategy::kFullyShard);
  EXPECT_EQ(strategy_named("nothing"), std::nullopt);
  EXPECT_THROW(name_of(static_cast<FitStrategy>(99)), InvalidArgument);
}

}  // namespace
}  // namespace pharos::ml::fitting
