// Trials that are trainings of an ml::Trainer, on ranks of their own.

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/ml/training_trial.hpp>
#include <pharos/ml/tuner.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "says.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml::tuner {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSteps = 20;

/// Learns the sum of three numbers. Writes a line to `steps` for each step of rank 0.
class Sum final : public Learner {
 public:
  Sum(double rate, std::string steps) : rate_{rate}, steps_{std::move(steps)} { net_->to(torch::kDouble); }

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override {
    auto random = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{7});
    const torch::Tensor x = torch::randn({64, 3}, random, torch::kDouble);
    return rows_of({{"x", array_of(x)}, {"y", array_of(x.sum(1, true))}});
  }
  torch::Tensor training_step(const Batch& batch) override {
    if (context().rank() == 0) std::ofstream{steps_, std::ios::app} << context().step() << '\n';
    return (net_->forward(tensor_of(batch["x"])) - tensor_of(batch["y"])).pow(2).mean();
  }
  Optimization configure_optimizers() override { return {.rule = Sgd{.lr = rate_}}; }

 private:
  const double rate_;
  const std::string steps_;
  torch::nn::Sequential net_{torch::nn::Linear(3, 4), torch::nn::Tanh(), torch::nn::Linear(4, 1)};
};

/// How a sweep trains. Sent to its trials.
struct Plan {
  std::string folder{};
  bool sharded = false;
  std::uint64_t dies_after = 0;  ///< reports, after which the worker of trial 1 dies once; 0: never
  std::uint64_t steps = kSteps;

  auto pharos_fields() { return std::tie(folder, sharded, dies_after, steps); }
};

FitOptions fit_options(const Plan& plan) {
  const FitStrategy strategy = plan.sharded ? FitStrategy::kFullyShard : FitStrategy::kCopies;
  return {.batch = 8, .epochs = 0, .steps = plan.steps, .strategy = strategy};
}
std::string steps_of(const Plan& plan, std::uint64_t trial) {
  return plan.folder + "/steps-" + std::to_string(trial);
}

double train(Trial& trial, const Plan& plan) {
  Runtime runtime;
  TrainerOptions options = as_trial(
      trial, {.scaling = {.workers = 2, .cpus_per_worker = 0}, .seed = 3, .folder = plan.folder, .save_every = 2});
  std::uint64_t reports = 0;
  options.callbacks.emplace_back([&](const TrainReport&) {
    if (++reports == plan.dies_after && trial.number() == 1 && trial.attempt() == 0) ::kill(::getpid(), SIGKILL);
    return Verdict::kGoOn;
  });
  Trainer trainer{runtime, std::move(options)};
  const double rate = trial.params().get<double>("rate");
  return *fit<Sum>(trainer, fit_options(plan), rate, steps_of(plan, trial.number())).last("loss");
}

class TrainingTrialTest : public cluster::ClusterTest {
 protected:
  static inline const Space kSpace{{"rate", uniform(0.02, 0.2)}};

  Plan plan(const std::string& name, bool sharded = false, std::uint64_t dies_after = 0) const {
    const fs::path folder = folder_.path() / name;
    fs::create_directories(folder);
    return {folder.string(), sharded, dies_after};
  }
  static TunerOptions options(std::uint64_t trials) {
    TunerOptions options{
        .space = kSpace, .metric = "loss", .trials = trials, .at_once = 2, .worker = {}, .save_every = 4};
    options.searcher = random_search(kSpace, 2);
    options.progress = false;
    return options;
  }
  /// The last loss of a training with this rate, which is no trial.
  double alone(Runtime& runtime, double rate) const {
    Trainer trainer{runtime, {.scaling = {.workers = 2, .cpus_per_worker = 0}, .seed = 3, .progress = false}};
    return *fit<Sum>(trainer, fit_options({}), rate, (folder_.path() / "steps-alone").string()).last("loss");
  }
  static std::vector<std::uint64_t> steps_in(const std::string& file) {
    std::ifstream in{file};
    return {std::istream_iterator<std::uint64_t>{in}, {}};
  }

  const TemporaryFolder folder_;
};

TEST_F(TrainingTrialTest, ItIsTheTrainingThatItWouldBeAlone) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  for (const bool sharded : {false, true}) {
    const Plan its = plan(sharded ? "sharded" : "copies", sharded);
    const SweepResults results = Tuner{runtime, options(3)}.run<&train>(its);
    ASSERT_EQ(results.count(TrialResult::State::kComplete), 3U);
    for (const TrialResult& trial : results.trials()) {
      EXPECT_EQ(trial.step, kSteps);
      EXPECT_NEAR(*trial.value, alone(runtime, trial.params.get<double>("rate")), 1e-9);
      EXPECT_EQ(checkpoints_in(fs::path{its.folder} / ("trial-" + std::to_string(trial.number)) / "checkpoints")
                    .at(0)
                    .moment.step,
                kSteps);
    }
  }
}

TEST_F(TrainingTrialTest, ATrialWhoseWorkerDiesGoesOnFromItsOwnCheckpoint) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  const Plan its = plan("killed", false, 11);
  const SweepResults results = Tuner{runtime, options(2)}.run<&train>(its);
  ASSERT_EQ(results.count(TrialResult::State::kComplete), 2U) << results.trials()[1].error;
  const TrialResult& killed = results.trials()[1];
  EXPECT_EQ(killed.attempts, 2U);
  EXPECT_EQ(killed.step, kSteps);
  EXPECT_NEAR(*killed.value, alone(runtime, killed.params.get<double>("rate")), 1e-9);
  // The trial has noted step 8, and its training goes on from there. Ranks may have gone on for a while.
  const std::vector<std::uint64_t> steps = steps_in(steps_of(its, 1));
  const auto again = std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>{});
  ASSERT_NE(again, steps.end());
  EXPECT_EQ(*std::next(again), 8U);
  EXPECT_EQ(steps.back(), kSteps - 1);
  EXPECT_TRUE(fs::exists(fs::path{its.folder} / "trial-1-again-1" / "checkpoints"));
}

TEST_F(TrainingTrialTest, ASchedulerStopsTheTrainings) {
  constexpr std::uint64_t kMany = 100'000;  // nobody waits for these
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  Plan its = plan("halved");
  its.steps = kMany;
  TunerOptions halving = options(6);
  halving.scheduler = asha({.first = 5, .most = kSteps, .factor = 2});
  const SweepResults results = Tuner{runtime, std::move(halving)}.run<&train>(its);
  std::size_t early = 0;
  for (const TrialResult& trial : results.trials()) {
    if (trial.step < kSteps) ++early;
    EXPECT_LE(trial.step, kSteps);
    EXPECT_LT(steps_in(steps_of(its, trial.number)).size(), kMany);
  }
  EXPECT_GT(early, 0U);
  EXPECT_LT(early, 6U);
}

TEST_F(TrainingTrialTest, ACopyGoesOnFromTheOthersCheckpoint) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  const Plan its = plan("copied");
  TunerOptions copying = options(4);
  copying.at_once = 4;
  copying.steps = kSteps;
  copying.scheduler = pbt(kSpace, {.seed = 1, .interval = 8, .share = 0.25});
  const SweepResults results = Tuner{runtime, std::move(copying)}.run<&train>(its);
  std::size_t copies = 0;
  for (const TrialResult& trial : results.trials()) {
    // A copy counts its own reports, and goes on at the step of the other one's training.
    ASSERT_EQ(trial.state, TrialResult::State::kComplete) << trial.error;
    // A training that began anew would have step 0 twice.
    const std::vector<std::uint64_t> steps = steps_in(steps_of(its, trial.number));
    EXPECT_EQ(std::count(steps.begin(), steps.end(), 0U), 1) << "trial " << trial.number;
    if (fs::exists(fs::path{its.folder} / ("trial-" + std::to_string(trial.number) + "-again-1"))) ++copies;
  }
  EXPECT_GT(copies, 0U);
}

TEST_F(TrainingTrialTest, AFolderOfAnotherSweepIsRefused) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  const Plan its = plan("twice");
  ASSERT_EQ((Tuner{runtime, options(1)}.run<&train>(its).count(TrialResult::State::kComplete)), 1U);
  const SweepResults results = Tuner{runtime, options(1)}.run<&train>(its);
  ASSERT_EQ(results.count(TrialResult::State::kFailed), 1U);
  EXPECT_SAYS(results.trials()[0].error, "trial-0 has a training of another sweep");
}

}  // namespace
}  // namespace pharos::ml::tuner
