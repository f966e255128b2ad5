#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/communicator.hpp>

namespace torch::nn {
class Module;
}

namespace pharos::ml {

/// What travels between ranks for a gradient.
enum class Wire : std::uint8_t {
  kExact,     ///< its own type
  kBf16,      ///< of float and double the upper 16 bits, summed as float: half the bytes of float, three digits
  kPowerSgd,  ///< of matrices of float and double a product of two thin ones: far less, and not the same
};

/// How Wire::kPowerSgd says a gradient of n rows and m columns. What is lost in one step is added in the next;
/// no checkpoint has it, nor who takes a dead rank's place.
struct PowerSgd {
  std::uint32_t rank = 4;           ///< by so many rows of n and of m numbers, where that is half of it or less
  std::uint64_t exact_steps = 100;  ///< are exact at first, while gradients change much; one at least
};

struct DdpOptions {
  /// Gradients are reduced by so many bytes at once, while those of earlier ones are still under way. 0: a mebibyte
  /// between CPUs, 25 between GPUs.
  std::size_t bucket_bytes = 0;
  Wire wire = Wire::kExact;
  PowerSgd power_sgd{};
  /// A parameter gets its gradient in as many parts in each backward as in the first: for modules that run a part of
  /// themselves again in backward (checkpointing), where a gradient may come in several.
  bool static_graph = false;
  /// Buffers (running means and the like) are rank 0's after each step.
  bool broadcast_buffers = true;
  /// Looks at each gradient before it is reduced: one that is no number is an error, with its parameter, its rank and
  /// its step. Costs one reading of all gradients.
  bool check_numbers = false;
  /// Of a training that goes on: so many steps were before, for messages.
  std::uint64_t first_step = 0;
};

/// Trains copies of one module on all ranks as if they were one: after each backward() every gradient is the mean over
/// the ranks, the same bits on all of them. The module stays as it is, and is called as before:
///
///   Ddp ddp{ranks, *model};
///   for (auto& [x, y] : batches_of_this_rank) {
///     optimizer.zero_grad();
///     loss(model->forward(x), y).backward();
///     optimizer.step();
///   }
///
/// Construction broadcasts rank 0's parameters and buffers; all ranks must have the same ones by name, shape and type,
/// or all throw InvalidArgument. Gradients lie in memory of the communicator; those of parameters that no rank has used
/// stay as they were. A module that works with the same ranks in its forward, as SyncBatchNorm does, is to use all its
/// parameters on all ranks or none: the order of operations would not be one otherwise. What goes wrong between ranks
/// is thrown by backward(), on all of them. The process keeps for its next step what the heap frees in one, up to a
/// GiB. Used by the thread that calls backward(). The module must outlive it.
class PHAROS_API Ddp {
 public:
  Ddp(Communicator& ranks, torch::nn::Module& module, const DdpOptions& options = {});
  /// Each rank's module is on its GPU. Gradients, parameters and buffers go over `gpus`, which on_gpu() has made of
  /// `ranks`; what the host knows goes over `ranks`. Backwards run on CUDA's default stream.
  Ddp(Communicator& ranks, Communicator& gpus, torch::nn::Module& module, const DdpOptions& options = {});
  Ddp(Ddp&&) = delete;
  ~Ddp();

  /// Gradients of backwards that begin while it lives are summed up on this rank, and reduced with those of the next.
  class NoSync;
  [[nodiscard]] NoSync no_sync();

  /// Before a backward: how many samples, or tokens, this rank's loss is the mean of. Its gradient counts as much, and
  /// a gradient is the mean over all samples. All ranks do that for each step, or none of them; one that has no samples
  /// gives 0 in place of its backward, has the others' gradients then, and steps as they do.
  void weigh(double samples);
  /// For ranks that weigh: this one has no more samples. Takes part in the others' steps with nothing, until all have
  /// come here; then all have the parameters and buffers of one that was the last to step. `step` is done in each:
  /// without it, what this rank's optimizer keeps stays behind the others'.
  ///
  ///   ddp.finish([&] { optimizer.step(); });
  void finish(const std::function<void()>& step = {});

  struct Step {
    std::uint64_t number = 0;    ///< of those that were reduced
    std::size_t operations = 0;  ///< that reduced gradients
    std::size_t bytes = 0;       ///< that this rank gave to them
    Duration waited{};           ///< for them, when there was nothing else to do
  };
  const Step& last_step() const;

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

class PHAROS_API Ddp::NoSync {
 public:
  explicit NoSync(std::shared_ptr<Core> core);
  NoSync(NoSync&&) = delete;
  ~NoSync();

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace pharos::ml
