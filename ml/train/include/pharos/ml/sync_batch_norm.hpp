#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <optional>

#include <pharos/base/export.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

struct SyncBatchNormOptions {
  double eps = 1e-5;
  /// How much of the running mean and variance is new in each step. None: they are the mean over all steps.
  std::optional<double> momentum = 0.1;
  /// It learns a weight and a bias for each feature.
  bool affine = true;
};

/// Batch normalisation over the batches of all ranks, as if they were one: for inputs of (batch, features, …). All
/// ranks call forward and backward together. Their batches may differ in size; then losses are to be sums divided by
/// one number on all ranks, instead of Ddp::weigh(), since the gradients of one rank's inputs are of all ranks' losses.
/// In eval() each goes by its running mean and variance, which are the same on all ranks. Halves are normalised as
/// floats.
class PHAROS_API SyncBatchNormImpl : public torch::nn::Module {
 public:
  SyncBatchNormImpl(const Communicator& ranks, std::int64_t features, const SyncBatchNormOptions& options = {});

  torch::Tensor forward(const torch::Tensor& x);
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override;

  struct Moments;

  torch::Tensor weight;  ///< undefined, as bias, where it is not affine
  torch::Tensor bias;
  torch::Tensor running_mean;
  torch::Tensor running_var;
  torch::Tensor num_batches_tracked;

 private:
  Moments take_moments(const torch::Tensor& x);

  Communicator ranks_;
  const SyncBatchNormOptions options_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace pharos::ml
