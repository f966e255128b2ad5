#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/no_sync.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/sharding.hpp>

namespace torch::nn {
class Module;
}

namespace pharos::ml {

/// Trains one module on all ranks, each of which keeps a part of it. The results are those of Ddp. The module is not
/// wrapped, and is called as before:
///
///   Sharded sharded = fully_shard(*model, ranks, {.param = DType::kBF16, .reduce = DType::kF32});
///   Optimizer optimizer{sharded.groups(0.01), AdamW{.lr = 3e-4}};
///   for (auto& [x, y] : batches_of_this_rank) {
///     optimizer.zero_grad();
///     loss(model->forward(x), y).backward();
///     sharded.clip_norm(1.0);
///     optimizer.step();
///   }
///
/// For a module on a GPU pass a second communicator, which on_gpu() or communicator_on() has made of the first one:
/// `fully_shard(*model, ranks, gpus)`. Parameters and gradients then go from GPU to GPU.
///
/// Parameters belong to units (see ShardOptions::blocks). When an operator of libtorch is about to work on a parameter,
/// its whole unit is gathered from all ranks, and the next unit is fetched early; later other units use the same
/// memory. On one machine, if the module computes in the type that the ranks keep (see ShardOptions::param), nothing is
/// gathered: each unit lies in memory that all ranks read, and of which each rank keeps a part. Losses may be computed
/// at any time, with gradients or without, by all ranks; they are those of the newest parameters.
///
/// Gradients are the mean over the ranks. They are added to what is there, and belong to the parts that this rank keeps
/// (slices()): the module's own parameters have no gradients. Optimizers must treat elements one by one, as AdamW, Sgd
/// and Lion do. Do not write to the module's parameters: load them before, or write to slices(). A write is found by
/// the next function that throws failures (see below).
///
/// All ranks construct it together. Options and communicators that do not fit the module, and what differs between
/// ranks, throw InvalidArgument on all ranks; a parameter that cannot be divided throws an Exception with kUnsupported
/// on all ranks. The module is unchanged then; if the constructor throws because ranks fail or memory is missing
/// (Exhausted), the module is of no further use. With kParameters all ranks must run the same graph in a step, or all
/// throw FailedPrecondition; with ZeRO graphs may differ. An exception that one rank alone throws, such as one of its
/// own forward, does not reach the others: they wait for that rank, at most for the communicator's timeout. One thread
/// at a time may use it or work on the module's parameters.
///
/// An operator that waits for its parameters cannot throw a failure between ranks. Instead all parameters are NaN from
/// then on, and the failure is thrown by backward(), by the step() of an Optimizer of groups(), and by clip_norm(),
/// weigh(), refresh() and check(). After an evaluation without gradients only check() is left to find a failure. On a
/// GPU the host waits for no parameters: operators compute with any numbers until the failure is noticed. After a
/// failure the module's parameters are of no use, and the parts that this rank keeps stay as they were. This object
/// keeps the module's tensors, but not the module. After its destruction neither the module's parameters nor the slices
/// may be used; the step() of an Optimizer of groups() then throws FailedPrecondition.
class PHAROS_API Sharded {
 public:
  Sharded(torch::nn::Module& module, const Communicator& ranks, Sharding sharding, const ShardOptions& options);
  /// For a module on a GPU: `gpus` is the communicator that on_gpu(), or communicator_on(), has made of `ranks`.
  Sharded(torch::nn::Module& module, const Communicator& ranks, const Communicator& gpus, Sharding sharding,
          const ShardOptions& options);
  Sharded(Sharded&&) = delete;
  /// Leaves the module with empty parameters. Waits for operations that are under way, at most for the communicator's
  /// timeout, and throws nothing. Destroy it between two backwards.
  ~Sharded();

  using Slice = ShardSlice;
  /// All ranks may write to their slices, as loading a checkpoint does, and must call refresh() afterwards. If the
  /// module was called since the last backward, they must call refresh() before writing, too.
  const std::vector<Slice>& slices() const;
  /// Makes the module use what the slices hold. All ranks call it: it waits until all have stopped reading the old
  /// values.
  void refresh();
  /// The slices that this rank trains, for any optimizer. They are valid as long as this object lives. If the module is
  /// called between backward and the step of an optimizer that is not an Optimizer of groups(), call refresh() before
  /// and after that step. Otherwise the next call of the module either fails as described above, or, if libtorch does
  /// not learn of the change (torch::optim::SGD does not report it), works on a mixture of old and new parameters.
  std::vector<at::Tensor> parameters() const;
  /// The slices that this rank trains, in groups for an Optimizer. All parameters of a group have the same settings.
  /// Throws what `settings` throws, on this rank only.
  std::vector<ParameterGroup> groups(const SettingsOf& settings) const;
  /// Groups with the settings of decaying_matrices().
  std::vector<ParameterGroup> groups(double weight_decay) const { return groups(decaying_matrices(weight_decay)); }

  /// Scales the gradients of the whole model, taken as one vector, down to the norm `max` if they are longer. Returns
  /// the norm that they had; if that is not finite, no gradient is changed. All ranks call it.
  double clip_norm(double max);
  /// Lets backwards sum up whole gradients on this rank, without reducing them, as long as the NoSync lives.
  [[nodiscard]] NoSync no_sync();
  /// Says, before a backward and on all ranks, how many samples (or tokens) this rank's loss is the mean of. This
  /// rank's gradient is weighted by that number. A rank without samples calls weigh(0), and runs its backward on any
  /// input. Waits for all ranks. Throws InvalidArgument for a negative number, on this rank only.
  void weigh(double samples);

  /// Throws a failure between ranks, if there was one, and FailedPrecondition if a parameter of the module was written
  /// to.
  void check() const;

  /// Statistics of the step that was reduced last.
  struct Step {
    std::uint64_t number = 0;    ///< Number of steps that have been reduced so far.
    std::size_t gathers = 0;     ///< Gathers of units; 0 where all ranks read the same memory.
    std::size_t reductions = 0;  ///< Reductions of the gradients of a unit.
    /// Time that this rank waited for gathers and reductions. Between machines a thread moves their bytes: what it
    /// takes of the rank's CPUs is no waiting.
    Duration waited{};
  };
  const Step& last_step() const;
  /// Time that operators have waited for parameters since the end of the last step.
  Duration waited_for_parameters() const;
  /// A table, as text, of the units and of the memory that they take.
  std::string table() const;

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

/// Divides parameters, gradients and the state of the optimizer among the ranks. Sends half as much again as Ddp, or,
/// where all ranks read the same memory, gradients only.
inline Sharded fully_shard(torch::nn::Module& module, const Communicator& ranks, const ShardOptions& options = {}) {
  return {module, ranks, Sharding::kParameters, options};
}
inline Sharded fully_shard(torch::nn::Module& module, const Communicator& ranks, const Communicator& gpus,
                           const ShardOptions& options = {}) {
  return {module, ranks, gpus, Sharding::kParameters, options};
}
/// Divides the state of the optimizer among the ranks. Sends as much as Ddp.
inline Sharded zero1(torch::nn::Module& module, const Communicator& ranks, const ShardOptions& options = {}) {
  return {module, ranks, Sharding::kOptimizer, options};
}
inline Sharded zero1(torch::nn::Module& module, const Communicator& ranks, const Communicator& gpus,
                     const ShardOptions& options = {}) {
  return {module, ranks, gpus, Sharding::kOptimizer, options};
}
/// Divides gradients and the state of the optimizer among the ranks. Sends as much as Ddp.
inline Sharded zero2(torch::nn::Module& module, const Communicator& ranks, const ShardOptions& options = {}) {
  return {module, ranks, Sharding::kGradients, options};
}
inline Sharded zero2(torch::nn::Module& module, const Communicator& ranks, const Communicator& gpus,
                     const ShardOptions& options = {}) {
  return {module, ranks, gpus, Sharding::kGradients, options};
}

}  // namespace pharos::ml
