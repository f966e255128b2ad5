#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

#include <pharos/base/export.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

struct SyncBatchNormOptions {
  double eps = 1e-5;
  /// How much of the running mean and variance is new in each step.
  double momentum = 0.1;
};

/// Batch normalisation over the batches of all ranks, as if they were one: for inputs of (batch, features, …). All
/// ranks call forward and backward together. Their batches may differ in size; then losses are to be sums divided by
/// one number on all ranks, instead of Ddp::weigh(), since the gradients of one rank's inputs are of all ranks' losses.
/// In eval() each goes by its running mean and variance, which are the same on all ranks.
class PHAROS_API SyncBatchNormImpl : public torch::nn::Module {
 public:
  /// The communicator must outlive it.
  SyncBatchNormImpl(Communicator& ranks, std::int64_t features, const SyncBatchNormOptions& options = {});

  torch::Tensor forward(const torch::Tensor& x);

  struct Moments;

  torch::Tensor weight;
  torch::Tensor bias;
  torch::Tensor running_mean;
  torch::Tensor running_var;

 private:
  Moments take_moments(const torch::Tensor& x);

  Communicator& ranks_;
  const SyncBatchNormOptions options_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace pharos::ml
