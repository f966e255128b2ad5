#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/ddp_options.hpp>
#include <pharos/ml/no_sync.hpp>

namespace torch::nn {
class Module;
}

namespace pharos::ml {

/// Trains copies of one module on all ranks as if they were one module: after each backward() every gradient is the
/// mean over the ranks, with the same bits on all of them. The module is not wrapped, and is called as before:
///
///   Ddp ddp{ranks, *model};
///   for (auto& [x, y] : batches_of_this_rank) {
///     optimizer.zero_grad();
///     loss(model->forward(x), y).backward();
///     optimizer.step();
///   }
///
/// All ranks construct it together, with the same options. The constructor broadcasts rank 0's parameters and buffers.
/// All ranks must have the same ones by name, shape and type, or all throw InvalidArgument. A parameter of a type that
/// ranks cannot reduce throws an Exception with kUnsupported; a tensor on another kind of device than the
/// communicator's, or PowerSgd::rank 0, throws InvalidArgument. Failures between ranks are thrown by
/// the constructor, backward(), weigh() and finish(), on all ranks. Gradients are undefined then, and the ranks need a
/// new communicator and a new Ddp. An exception that one rank alone throws, such as one of its own forward, does not
/// reach the others: they wait for that rank, at most for the communicator's timeout. backward() throws
/// FailedPrecondition, on one rank, if a gradient comes in more parts than expected (see DdpOptions::static_graph).
///
/// Gradients lie in memory of the communicator, and keep that memory when the Ddp is destroyed. The gradient of a
/// parameter that no rank has used stays as it was. If the module's own forward works with the same ranks, as that of
/// SyncBatchNorm does, each parameter must be used on all ranks or on none: otherwise ranks would begin operations in
/// different orders.
///
/// Use it only from the thread that calls backward(), and destroy it between two backwards. The module must outlive it.
/// The destructor waits for reductions that a failed backward has left, at most for the communicator's timeout, and
/// leaves parameters and gradients as they are; backwards then reduce nothing. On CPUs the process keeps up to 1 GiB of
/// the heap that one step frees, for the next step.
class PHAROS_API Ddp {
 public:
  Ddp(Communicator& ranks, torch::nn::Module& module, const DdpOptions& options = {});
  /// For modules on GPUs: each rank's module is on its own GPU. Gradients, parameters and buffers are sent over `gpus`,
  /// which on_gpu() has made of `ranks`; data of the host is sent over `ranks`. Backward must run on CUDA's default
  /// stream, because the operations of `gpus` wait for that stream.
  Ddp(Communicator& ranks, Communicator& gpus, torch::nn::Module& module, const DdpOptions& options = {});
  Ddp(Ddp&&) = delete;
  ~Ddp();

  /// Lets backwards sum up gradients on this rank, without reducing them, as long as the NoSync lives.
  [[nodiscard]] NoSync no_sync();

  /// Says, before a backward, how many samples (or tokens) this rank's loss is the mean of. This rank's gradient is
  /// weighted by that number, so that the result is the mean over all samples. Either all ranks call it for each step,
  /// or none does. A rank without samples calls weigh(0) instead of backward(): it then has the gradients of the other
  /// ranks, and steps its optimizer as they do. Waits for all ranks. Throws InvalidArgument for a negative number, on
  /// this rank only.
  void weigh(double samples);
  /// For ranks that call weigh(): says that this rank has no more samples. Until all ranks have called finish(), this
  /// rank takes part in the steps of the others, with no samples. After that all ranks have the parameters and buffers
  /// of a rank that was among the last to step. `step` is called on this thread, once in each of these steps, and what
  /// it throws comes out of finish(); without it, the state of this rank's optimizer falls behind that of the others.
  ///
  ///   ddp.finish([&] { optimizer.step(); });
  void finish(const std::function<void()>& step = {});

  /// Statistics of the step that was reduced last.
  struct Step {
    std::uint64_t number = 0;    ///< Number of steps that have been reduced so far.
    std::size_t operations = 0;  ///< Number of operations that reduced gradients.
    std::size_t bytes = 0;       ///< Bytes that this rank gave to these operations.
    Duration waited{};           ///< Time that this rank waited for other ranks after its own backward.
  };
  const Step& last_step() const;

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace pharos::ml
