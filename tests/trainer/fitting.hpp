#pragma once

// The base of the tests of fit: a small learner, and trainers in folders of their own.

#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pharos/ml/fit.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "demand.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml::fitting {

using torch::Tensor;

inline constexpr std::uint64_t kEpochs = 23;
inline constexpr std::uint64_t kPointsSteps = kEpochs * 9;  // steps of twelve samples each
inline constexpr const char* kValidated = "validation_accuracy";

/// Points of a plane in three classes; the module learns the class. No batch size divides the numbers of samples.
struct Points : Learner {
  static constexpr std::int64_t kTraining = 101;
  static constexpr std::int64_t kValidation = 37;

  explicit Points(std::uint64_t dies_at)
      : Points{dies_at, torch::nn::Sequential{torch::nn::Linear(2, 16), torch::nn::Tanh(), torch::nn::Linear(16, 3)}} {}

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return samples(1, kTraining); }
  DatasetPtr validation_data() override { return samples(2, kValidation); }
  Tensor training_step(const Batch& batch) override {
    return torch::cross_entropy_loss(net_->forward(tensor_of(batch["point"])), tensor_of(batch["class"]));
  }
  Metrics validation_step(const Batch& batch) override {
    demand(!net_->is_training(), "the module is in evaluation");
    demand(!torch::GradMode::is_enabled(), "there are no gradients");
    const Tensor out = net_->forward(tensor_of(batch["point"]));
    const Tensor classes = tensor_of(batch["class"]);
    return {{"loss", torch::cross_entropy_loss(out, classes).item<double>()},
            {"accuracy", out.argmax(1).eq(classes).to(torch::kDouble).mean().item<double>()}};
  }
  Optimization configure_optimizers() override {
    return {.rule = AdamW{.lr = 0.03}, .weight_decay = 0.01, .schedule = schedule(), .clip_norm = 1};
  }
  /// Its rate is never 0.
  static Schedule schedule() { return warm_up(3, cosine(kPointsSteps)); }
  void add_to_state(State& state) override {
    state.before_save([this] {
      const bool is_first = context().attempt() == 0 && !context().is_replacement();
      const bool is_time = ++saves_ == dies_at_ && is_first && context().rank() == 1;
      if (is_time) ::kill(::getpid(), SIGKILL);
    });
  }

 protected:
  Points(std::uint64_t dies_at, const torch::nn::Sequential& net) : dies_at_{dies_at}, net_{net} {
    net_->to(torch::kDouble);
  }
  static DatasetPtr samples(std::uint64_t seed, std::int64_t count) {
    auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
    const Tensor points = torch::randn({count, 2}, random, torch::kDouble);
    const Tensor classes = (points.sum(1).gt(0.5)).to(torch::kLong) + (points.sum(1).gt(-0.5)).to(torch::kLong);
    return rows_of({{"point", array_of(points)}, {"class", array_of(classes)}});
  }

 private:
  const std::uint64_t dies_at_;
  std::uint64_t saves_ = 0;
  torch::nn::Sequential net_;
};

class FitTest : public cluster::ClusterTest {
 protected:
  TrainerOptions options(const std::string& name, std::size_t workers) const {
    return {.scaling = {.workers = workers, .cpus_per_worker = 0},
            .seed = 3,
            .folder = folder_.path() / name,
            .save_every = 4,
            .progress = false};
  }
  static std::vector<double> losses(const TrainResult& result) {
    std::vector<double> losses;
    for (const TrainReport& each : result.reports) losses.push_back(*each.metrics.find("loss"));
    return losses;
  }

  const TemporaryFolder folder_;
};

}  // namespace pharos::ml::fitting
