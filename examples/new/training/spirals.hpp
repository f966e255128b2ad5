#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>

#include <pharos/ml/fit.hpp>

/// A network that learns to which arm of a spiral a point belongs. The program makes the points itself. Put your own
/// network and data here.
class Spirals : public pharos::ml::Learner {
 public:
  torch::nn::Module& module() override { return *network_; }
  pharos::ml::DatasetPtr training_data() override { return points(1, 3000); }
  pharos::ml::DatasetPtr validation_data() override { return points(2, 600); }

  torch::Tensor training_step(const pharos::ml::Batch& batch) override {
    return torch::cross_entropy_loss(network_->forward(on_device(batch, "place")), on_device(batch, "arm"));
  }
  pharos::ml::Metrics validation_step(const pharos::ml::Batch& batch) override {
    const torch::Tensor guess = network_->forward(on_device(batch, "place")).argmax(1);
    return {{"accuracy", guess.eq(on_device(batch, "arm")).to(torch::kFloat).mean().item<double>()}};
  }
  pharos::ml::Optimization configure_optimizers() override { return {.rule = pharos::ml::AdamW{.lr = 1e-2}}; }

 private:
  static constexpr std::int64_t kArms = 3;

  static pharos::ml::DatasetPtr points(std::uint64_t seed, std::int64_t count) {
    const auto random = torch::make_generator<torch::CPUGeneratorImpl>(seed);
    const torch::Tensor arm = torch::arange(count).remainder(kArms);
    const torch::Tensor radius = torch::rand({count}, random).sqrt();
    const torch::Tensor angle = 5 * radius + arm * (2 * M_PI / kArms);
    const torch::Tensor place = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1);
    const torch::Tensor noise = 0.04 * torch::randn({count, 2}, random);
    return pharos::ml::rows_of({{"place", pharos::ml::array_of(place + noise)}, {"arm", pharos::ml::array_of(arm)}});
  }

  torch::nn::Sequential network_{torch::nn::Linear(2, 64), torch::nn::Tanh(), torch::nn::Linear(64, 64),
                                 torch::nn::Tanh(), torch::nn::Linear(64, kArms)};
};
