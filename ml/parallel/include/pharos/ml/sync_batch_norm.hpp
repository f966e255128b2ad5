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
  /// The share that each step's mean and variance have in the running ones. nullopt: the running ones are the mean over
  /// all steps.
  std::optional<double> momentum = 0.1;
  /// The norm learns a weight and a bias for each feature.
  bool affine = true;
};

/// Batch normalisation over the batches of all ranks, as if they were one batch. Inputs have the shape (batch,
/// features, …); another shape throws InvalidArgument, on this rank only. In training all ranks call forward and
/// backward together, on the thread that trains, and both throw what fails between ranks; they wait for the other ranks
/// at most for the communicator's timeout. forward updates the running mean and variance. In eval() each rank uses the
/// running mean and variance, which are the same on all ranks, and works alone. Half-precision inputs are normalised as
/// floats.
///
/// The batches of ranks may differ in size. The loss must then be a sum that is divided by the same number on all
/// ranks; Ddp::weigh() would be wrong, because the gradients of one rank's inputs depend on the losses of all ranks.
///
/// `ranks` works in host memory. The first batch on a GPU makes a communicator over the GPUs of it, by
/// communicator_on(), on all ranks together. The norm and the graphs of its backwards keep copies of both, whose
/// connections stay open as long. So it cannot go on with other ranks after one of them has died.
class PHAROS_API SyncBatchNormImpl : public torch::nn::Module {
 public:
  SyncBatchNormImpl(const Communicator& ranks, std::int64_t features, const SyncBatchNormOptions& options = {});

  torch::Tensor forward(const torch::Tensor& x);
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override;

  struct Moments;

  torch::Tensor weight;  ///< undefined, like bias, if the norm is not affine
  torch::Tensor bias;
  torch::Tensor running_mean;
  torch::Tensor running_var;
  torch::Tensor num_batches_tracked;

 private:
  Moments take_moments(const torch::Tensor& x);
  Communicator& ranks_of(at::Device device);

  Communicator ranks_;
  std::optional<Communicator> gpus_;
  const SyncBatchNormOptions options_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace pharos::ml
