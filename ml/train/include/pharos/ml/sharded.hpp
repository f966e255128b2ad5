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
#include <pharos/ml/dtype.hpp>
#include <pharos/ml/optimizer.hpp>

namespace torch::nn {
class Module;
}

namespace pharos::ml {

/// What the ranks divide among them, instead of each having all of it.
enum class Sharding : std::uint8_t {
  kOptimizer,   ///< what the optimizer keeps (ZeRO-1)
  kGradients,   ///< that, and gradients (ZeRO-2)
  kParameters,  ///< that, and parameters (ZeRO-3, FSDP)
};

struct ShardOptions {
  /// Modules whose parameters come and go together: units. What belongs to none of them, or to several, is one more,
  /// which stays from its first use in a step to the last. Empty: the children of the largest list or sequence; of an
  /// encoder's layers, where the sequence is an embedding, the encoder and a head.
  std::vector<std::shared_ptr<torch::nn::Module>> blocks{};
  /// What the module computes in, for instance DType::kBF16; the ranks keep floats. None: in the parameters' own type.
  std::optional<DType> param{};
  /// What gradients are summed up in on their way. None: in what the module computes in.
  std::optional<DType> reduce{};
  /// False: a unit that has been gathered in forward stays until its gradients are there. One gathering less in a step,
  /// and memory for all units. It is the same where nothing is gathered.
  bool reshard_after_forward = true;
  /// Buffers (running means and the like) are rank 0's after each step.
  bool broadcast_buffers = true;
};

/// Trains one module on all ranks, of which each keeps a part; the results are Ddp's. The module stays as it is, and is
/// called as before; by one thread at a time, which holds for all that works on its parameters, and for this:
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
/// A unit's parameters come from all ranks when an operator is about to work on one of them, the next unit's with them,
/// and their memory is another unit's later. On one machine, where the module computes in what the ranks keep (see
/// ShardOptions::param), nothing is sent: each unit is in memory that all ranks read, and of which each keeps a part.
/// Ranks must run the same graph in a step, or all throw; ZeRO's need not. Optimizers have to treat elements one by
/// one, as AdamW, Sgd and Lion do. Gradients are the mean over the ranks, are added to what is there, and lie at the
/// parts that this rank keeps: parameters of the module have none. Nor are they to be written to, which is found at the
/// next hook: load before, or by slices().
///
/// Losses may be computed at any time, with gradients or without, by all ranks: they are of the newest parameters.
///
/// What fails between ranks while an operator waits for its parameters cannot be thrown there: they are NaN from then
/// on, and what has failed is thrown by backward(), by the step() of an Optimizer of groups(), and by clip_norm(),
/// weigh(), refresh() and check(). An evaluation without gradients has none of these but check(). After it, and without
/// this, the module's parameters are of no use. What this rank keeps is as it was.
class PHAROS_API Sharded {
 public:
  Sharded(torch::nn::Module& module, const Communicator& ranks, Sharding sharding, const ShardOptions& options);
  Sharded(Sharded&&) = delete;
  ~Sharded();

  /// A part of a parameter that this rank keeps: elements from `begin` on, in the order of its memory.
  struct Slice {
    std::string name;
    std::vector<std::int64_t> shape;  ///< of the parameter
    std::int64_t begin = 0;
    /// In one dimension. If it is trained: in float at least, and a leaf that requires gradients.
    at::Tensor values;
  };
  /// May be written to by all ranks, as a checkpoint does; then refresh() is to follow, and to go before if the module
  /// was called since the last backward.
  const std::vector<Slice>& slices() const;
  /// All ranks call it.
  void refresh();
  /// What this rank trains, for any optimizer, as long as this lives. Where the module is called between backward and
  /// the step of one that is not an Optimizer of groups(), refresh() is to go before that step and to follow it:
  /// otherwise the next call fails as above, if libtorch was told of the change (torch::optim::SGD does not tell), or
  /// works on parameters of two ages.
  std::vector<at::Tensor> parameters() const;
  /// Two groups: parameters of two dimensions or more decay; biases and what norms learn does not.
  std::vector<ParameterGroup> groups(double weight_decay) const;

  /// Makes the gradients of the whole model, taken as one vector, at most so long; returns how long it was. All ranks
  /// call it.
  double clip_norm(double max);
  /// Gradients of backwards that begin while it lives are summed up on this rank, whole, and reduced with those of the
  /// next.
  class NoSync;
  [[nodiscard]] NoSync no_sync();
  /// Before a backward, on all ranks: how many samples, or tokens, this rank's loss is the mean of. Its gradient counts
  /// as much. A rank that has none does its backward on anything.
  void weigh(double samples);

  /// Throws what has failed.
  void check() const;

  struct Step {
    std::uint64_t number = 0;  ///< of those that were reduced
    std::size_t gathers = 0;   ///< of units; none where all ranks read the same memory
    std::size_t reductions = 0;
    Duration waited{};  ///< for gathers and reductions
  };
  const Step& last_step() const;
  /// For parameters, since the last step's end.
  Duration waited_for_parameters() const;
  /// The units, and how much memory they take.
  std::string table() const;

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

class PHAROS_API Sharded::NoSync {
 public:
  explicit NoSync(std::shared_ptr<Core> core);
  NoSync(NoSync&&) = delete;
  ~NoSync();

 private:
  std::shared_ptr<Core> core_;
};

/// Parameters, gradients and what the optimizer keeps are divided among the ranks.
inline Sharded fully_shard(torch::nn::Module& module, const Communicator& ranks, const ShardOptions& options = {}) {
  return {module, ranks, Sharding::kParameters, options};
}
/// What the optimizer keeps is divided among the ranks. Sends as much as Ddp.
inline Sharded zero1(torch::nn::Module& module, const Communicator& ranks, const ShardOptions& options = {}) {
  return {module, ranks, Sharding::kOptimizer, options};
}
/// Gradients and what the optimizer keeps are divided among the ranks. Sends as much as Ddp.
inline Sharded zero2(torch::nn::Module& module, const Communicator& ranks, const ShardOptions& options = {}) {
  return {module, ranks, Sharding::kGradients, options};
}

}  // namespace pharos::ml
