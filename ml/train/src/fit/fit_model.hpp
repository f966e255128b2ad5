#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <pharos/ml/fit.hpp>

namespace pharos::ml {

/// Trains a learner's module on all ranks by one of the strategies, and hides their differences from the training loop:
/// backward, clipping, checks and state. Owned by the loop of fit(); the rank's thread.
class FitModel {
 public:
  FitModel(Learner& learner, Communicator& ranks, FitStrategy strategy, const FitOptions& options, at::Device device);

  /// Connects copies by a new Ddp over these ranks, after `step` steps. Does nothing for one rank or a divided module.
  void join(Communicator& ranks, std::uint64_t step);
  bool is_divided() const { return sharded_.has_value(); }
  std::string table() const { return sharded_ ? sharded_->table() : ""; }
  std::vector<ParameterGroup> groups(double weight_decay) const;
  void add_to(State& state, Optimizer& optimizer);

  struct Backward {
    double loss = 0;             ///< mean loss of this rank's batches
    double forward_seconds = 0;  ///< time of forward, without waiting for other ranks
    double waited_seconds = 0;   ///< time of waiting for other ranks, in forward and in backward
  };
  /// Runs forward and backward for the batches of one step. The gradients are then those of the mean over all samples
  /// of all ranks. `loss_of` returns the mean loss of a batch.
  Backward backward(const std::vector<Batch>& batches, const std::function<at::Tensor(const Batch&)>& loss_of);
  double clip(double max);

  /// With FitOptions::check_numbers, checks the reduced gradients. Does nothing for Ddp, which has checked the
  /// gradients of each rank before it reduced them.
  void check_numbers(TrainContext& context) const;
  /// Throws FailedPrecondition with the name of the first parameter whose reduced gradient is not finite.
  void check_means(TrainContext& context, std::uint64_t step) const;
  /// Checks the gradients of a committed step, unless that was done before. Ranks with copies do not wait for each
  /// other, because all of them have the same gradients.
  void check_numbers_to_save(TrainContext& context) const;

 private:
  void backward(const at::Tensor& loss, double samples, bool is_last);
  template <class Work>
  void reduce(double samples, const Work& work);
  double waited_for_parameters() const;

  torch::nn::Module& module_;
  const bool checks_numbers_;
  const bool keeps_gradients_;  // with ZeRO-1: each rank has whole gradients
  double waited_ = 0;           // seconds of waiting for other ranks in the backwards of a step
  const at::Device device_;
  DdpOptions how_;
  std::optional<Communicator> gpus_;  // the second communicator of ddp_, if the module is on a GPU
  std::optional<Ddp> ddp_;
  std::optional<Sharded> sharded_;
};

/// The sizes of the learner's model, for choose_strategy().
FitSize size_of_model(Learner& learner, const Rule& rule, const FitOptions& options, const Communicator& ranks);

}  // namespace pharos::ml
