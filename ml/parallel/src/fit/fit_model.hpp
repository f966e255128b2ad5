#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/ml/fit_options.hpp>
#include <pharos/ml/loader.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/state.hpp>
#include <pharos/ml/train_context.hpp>
#include <pharos/ml/training.hpp>

#include "module/parameters.hpp"
#include "module/reading.hpp"

namespace pharos::ml {

/// A learner's module as one strategy trains it on all ranks: backward, clipping, checks and state. Made by
/// TrainingStrategy::make_model(). Owned by the loop of fit(); the rank's thread. The module outlives it. Functions
/// that need the other ranks throw what fails between them, as Ddp and Sharded do; a model of copies can then join()
/// new ranks. The destructor does what that of Ddp or Sharded does.
class FitModel {
 public:
  FitModel(torch::nn::Module& module, const FitOptions& options);
  FitModel(FitModel&&) = delete;
  virtual ~FitModel() = default;

  /// Called before the first step, and after a dead rank was replaced: from then on the model works with these ranks.
  /// `step` steps have been done.
  virtual void join(Communicator& ranks, std::uint64_t step) = 0;
  /// What is divided among the ranks, as a table in text. Empty if nothing is.
  virtual std::string table() const = 0;
  virtual std::vector<ParameterGroup> groups(const SettingsOf& settings) const = 0;
  /// The parameters, or the parts of them, that this rank has, by the names of their parameters.
  virtual std::vector<NamedTensor> own_parameters() const = 0;
  /// Add the content of checkpoints. The names and numbers are the same for all strategies.
  virtual void add_to(State& state) = 0;
  virtual void add_to(State& state, Optimizer& optimizer) = 0;
  /// Moving means of what this rank has of the model. The model outlives them.
  virtual std::unique_ptr<Ema> make_ema(double decay) const = 0;
  virtual void add_to(State& state, Ema& ema) const = 0;
  /// The whole model, as the ranks have it now. Called by all ranks together; the result counts at rank 0.
  virtual std::vector<NamedArray> arrays(Communicator& ranks) const = 0;
  /// Called by all ranks before and after the numbers of the model are replaced.
  virtual void refresh() {}

  /// A backward that is done, or that the device still does.
  struct Backward {
    std::vector<Reading> losses{};  ///< of this rank's batches; the sum is their mean loss
    double forward_seconds = 0;     ///< time of forward, without waiting for other ranks
    double waited_seconds = 0;      ///< time of waiting for other ranks, in forward and in backward
  };
  /// Runs forward and backward for the batches of one step. The gradients are then those of the mean over all samples
  /// of all ranks, times `scale`. `loss_of` returns the mean loss of a batch. What it throws comes out unchanged.
  Backward backward(const std::vector<Batch>& batches, const std::function<at::Tensor(const Batch&)>& loss_of,
                    double scale);

  struct Numbers {
    double loss = 0;
    double norm = 0;  ///< of the gradients of the whole model, taken as one vector; 0 unless it was asked for
  };
  /// The numbers of a step. For the loss the host waits for forward only, so that a device still has work when it is
  /// given more. With the norm the host waits for all work of the step, and all ranks call it together.
  Numbers numbers(const Backward& done, bool with_norm, Communicator& ranks) const;
  /// Multiplies all gradients.
  void scale(double factor) const;

  /// With FitOptions::check_numbers, checks the reduced gradients, unless they were checked before they were reduced.
  /// Throws like check_means().
  void check_numbers(TrainContext& context) const;
  /// Throws FailedPrecondition with the name of the first parameter whose reduced gradient is not finite.
  void check_means(TrainContext& context, std::uint64_t step) const;
  /// Checks the reduced gradients of a committed step, unless check_numbers() has done it. Ranks with copies do not
  /// wait for each other, because all of them have the same gradients. Throws like check_means().
  void check_numbers_to_save(TrainContext& context) const;

 protected:
  /// Converts floating point tensors to bfloat16. Counters, such as the number of batches that a norm has seen, stay as
  /// they are.
  static void halve(const std::vector<at::Tensor>& tensors);
  template <class Work>
  static Duration duration_of(const Work& work) {
    const auto began = std::chrono::steady_clock::now();
    work();
    return std::chrono::steady_clock::now() - began;
  }

 private:
  std::vector<at::Tensor> own_gradients() const;
  /// Returns true if ranks have parts of the gradients, and if all ranks must run the same graph in a step.
  virtual bool is_divided() const = 0;
  /// Returns true if the gradients of each rank were checked before they were reduced.
  virtual bool checks_while_reducing() const = 0;
  /// The gradients that this rank has, by the names of their parameters. They may be undefined.
  std::vector<NamedTensor> gradients() const;
  /// Time that operators have waited for parameters since the last backward.
  virtual Duration waited_for_parameters() const = 0;
  /// Runs the backward of one batch of a step in which this rank has `samples` samples. After the last batch the
  /// gradients are the mean over the ranks. The loss is undefined if this rank has no samples; not called so if
  /// is_divided(). Returns how long it has waited for other ranks.
  virtual Duration backward_of_batch(const at::Tensor& loss, double samples, bool is_last) = 0;

  torch::nn::Module& module_;
  const bool checks_numbers_;
};

}  // namespace pharos::ml
