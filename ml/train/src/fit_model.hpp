#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <pharos/ml/fit.hpp>

namespace pharos::ml {

/// A learner's module on all ranks, by one of the strategies: what a step does with gradients.
class FitModel {
 public:
  FitModel(Learner& learner, Communicator& ranks, FitStrategy strategy, const FitOptions& options, at::Device device);

  /// Copies become one, with these ranks, behind that step.
  void join(Communicator& ranks, std::uint64_t step);
  bool is_divided() const { return sharded_.has_value(); }
  std::string table() const { return sharded_ ? sharded_->table() : ""; }
  std::vector<ParameterGroup> groups(double weight_decay) const;
  void add_to(State& state, Optimizer& optimizer);

  struct Backward {
    double loss = 0;             ///< the mean
    double forward_seconds = 0;  ///< without waiting for others
    double waited_seconds = 0;   ///< for others, in forward and in backward
  };
  /// The mean losses of batches become gradients of the mean of all samples, over all ranks.
  Backward backward(const std::vector<Batch>& batches, const std::function<at::Tensor(const Batch&)>& loss_of);
  double clip(double max);

  /// With FitOptions::check_numbers, of gradients that are the mean already. Ddp has looked at each rank's before.
  void check_numbers(TrainContext& context) const;
  /// Throws FailedPrecondition with the first parameter whose gradient has elements that are none.
  void check_means(TrainContext& context, std::uint64_t step) const;
  /// Of a step that was committed, if they have not been looked at. Copies have the same, and wait for no other.
  void check_numbers_to_save(TrainContext& context) const;

 private:
  void backward(const at::Tensor& loss, double samples, bool is_last);
  template <class Work>
  void reduce(double samples, const Work& work);
  double waited_for_parameters() const;

  torch::nn::Module& module_;
  const bool checks_numbers_;
  const bool keeps_gradients_;  // whole, where the rest is divided
  double waited_ = 0;           // for others in the backwards of a step
  const at::Device device_;
  DdpOptions how_;
  std::optional<Communicator> gpus_;  // ddp_'s, where the module is on a GPU
  std::optional<Ddp> ddp_;
  std::optional<Sharded> sharded_;
};

/// What is to lie in memory, for choose_strategy().
FitSize size_of_model(Learner& learner, const Rule& rule, const FitOptions& options, const Communicator& ranks);

}  // namespace pharos::ml
