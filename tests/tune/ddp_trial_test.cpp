// Trials that are distributed trainings.

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <pharos/ml/ddp.hpp>
#include <pharos/ml/tuner.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::ml::tuner {
namespace {

constexpr std::uint64_t kSteps = 12;
constexpr std::uint64_t kDiesAt = 7;
constexpr std::int64_t kBatch = 16;

/// The batch of a step. Each worker has a part of it.
torch::Tensor batch_of(std::uint64_t step) {
  torch::manual_seed(1000 + step);
  return torch::randn({kBatch, 3}, torch::kDouble);
}

std::vector<double> numbers_of(const torch::nn::Linear& model) {
  const torch::Tensor all = torch::nn::utils::parameters_to_vector(model->parameters()).detach();
  return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
}

void load(const std::vector<double>& numbers, const torch::nn::Linear& model) {
  const torch::NoGradGuard none;
  const torch::Tensor all = torch::tensor(numbers, torch::kDouble);
  torch::nn::utils::vector_to_parameters(all, model->parameters());
}

torch::Tensor loss_of(torch::nn::Linear& model, const torch::Tensor& x) {
  return (model->forward(x) - x.sum(1, true)).pow(2).mean();
}

torch::nn::Linear new_model() {
  torch::manual_seed(5);
  torch::nn::Linear model{3, 1};
  model->to(torch::kDouble);
  return model;
}

/// The second worker of trial 1 dies when it runs for the first time.
double train(Trial& trial) {
  torch::set_num_threads(1);
  torch::nn::Linear model = new_model();
  if (const auto saved = trial.checkpoint<std::vector<double>>()) load(*saved, model);
  Ddp ddp{trial.communicator(), *model};
  torch::optim::SGD optimizer{model->parameters(), trial.params().get<double>("rate")};
  const std::int64_t part = kBatch / trial.workers();
  while (trial.step() < kSteps) {
    const torch::Tensor x = batch_of(trial.step()).narrow(0, trial.worker() * part, part);
    optimizer.zero_grad();
    loss_of(model, x).backward();
    if (trial.number() == 1 && trial.attempt() == 0 && trial.worker() == 1 && trial.step() == kDiesAt) {
      ::kill(::getpid(), SIGKILL);
    }
    optimizer.step();
    const double loss = loss_of(model, batch_of(trial.step())).item<double>();
    if (trial.report(loss, [&] { return numbers_of(model); }) != Verdict::kGoOn) break;
  }
  return loss_of(model, batch_of(kSteps)).item<double>();
}

double train_alone(double rate) {
  torch::nn::Linear model = new_model();
  torch::optim::SGD optimizer{model->parameters(), rate};
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    loss_of(model, batch_of(step)).backward();
    optimizer.step();
  }
  return loss_of(model, batch_of(kSteps)).item<double>();
}

class DdpTrialTest : public cluster::ClusterTest {};

TEST_F(DdpTrialTest, AWorkerThatIsKilledCostsItsTrialTheStepsSinceTheLastCheckpointAndNothingElse) {
  Runtime runtime{RuntimeOptions{.cpus = 4}};
  const Space space{{"rate", uniform(0.01, 0.1)}};
  TunerOptions options{.space = space, .trials = 4, .workers = 2, .save_every = 3, .progress = false};
  options.searcher = random_search(space, 2);
  const SweepResults results = Tuner{runtime, std::move(options)}.run<&train>();
  ASSERT_EQ(results.count(TrialResult::State::kComplete), 4U);
  for (const TrialResult& trial : results.trials()) {
    EXPECT_EQ(trial.step, kSteps);
    EXPECT_EQ(trial.attempts, trial.number == 1 ? 2U : 1U);
    EXPECT_NEAR(*trial.value, train_alone(trial.params.get<double>("rate")), 1e-12);
  }
  EXPECT_NE(results.trials()[1].error.find("SIGKILL"), std::string::npos) << results.trials()[1].error;
}

}  // namespace
}  // namespace pharos::ml::tuner
