#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <pharos/base/export.hpp>
#include <pharos/ml/ddp.hpp>
#include <pharos/ml/disk_backed.hpp>
#include <pharos/ml/fit_strategy.hpp>
#include <pharos/ml/loader.hpp>
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/module_state.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/precision.hpp>
#include <pharos/ml/schedule.hpp>
#include <pharos/ml/sharded.hpp>
#include <pharos/ml/trainer.hpp>

/// Trains a class that says what is learned and from which data. fit() does the rest of the training loop:
///
///   class Digits : public ml::Learner {
///    public:
///     torch::nn::Module& module() override { return *net_; }
///     ml::DatasetPtr training_data() override { return ml::rows_of(…); }
///     at::Tensor training_step(const ml::Batch& batch) override {
///       return torch::cross_entropy_loss(net_(ml::tensor_of(batch["image"])), ml::tensor_of(batch["label"]));
///     }
///    private:
///     Net net_;
///   };
///
///   ml::Trainer trainer{runtime, {.scaling = {.workers = 4}, .folder = "runs/digits", .save_every = 100}};
///   const ml::TrainResult result = ml::fit<Digits>(trainer, {.batch = 64, .epochs = 10});
namespace pharos::ml {

class DeviceCopies;

struct Optimization {
  Rule rule = AdamW{};
  double weight_decay = 0;
  /// In each step the rule's learning rate is multiplied by this schedule's factor.
  Schedule schedule = constant();
  /// Upper bound for the norm of all gradients, taken as one vector. 0: gradients are not clipped.
  double clip_norm = 0;
};

class Learner;
struct FitOptions;

namespace detail {
/// Resets `disk` once the module is divided, so that all later tensors lie in memory.
PHAROS_API void fit(TrainContext& context, Learner& learner, const FitOptions& options,
                    std::optional<DiskBacked>& disk);
}  // namespace detail

/// Says what is learned, and from which data. Each rank makes one with the same random numbers, and owns it; only the
/// rank's thread uses it. An exception of its functions comes out of fit() on this rank and ends the training. fit()
/// with a Trainer destroys it when the training of this rank has ended. When a rank that trains a copy dies, a new
/// process makes another Learner, which gets the state from the other ranks, and the interrupted step is done again
/// (see fit()).
class PHAROS_API Learner {
 public:
  Learner() = default;
  Learner(Learner&&) = delete;
  virtual ~Learner();

  /// The module that is trained: the same one at each call.
  virtual torch::nn::Module& module() = 0;
  /// Called once. The loader's threads read the dataset, and keep it until fit() has returned.
  virtual DatasetPtr training_data() = 0;
  /// The order in which the samples of each epoch come. nullopt: they are shuffled by the training's seed. PyTorch's
  /// order is Order::as_torch(samples, context().seed()), with a FitOptions::tail that pads or drops as PyTorch's
  /// sampler does.
  virtual std::optional<Order> training_order(std::uint64_t samples);
  /// Returns the mean loss of a batch.
  virtual at::Tensor training_step(const Batch& batch) = 0;

  /// nullptr: nothing is validated.
  virtual DatasetPtr validation_data() { return nullptr; }
  /// Returns means over a batch. Called without gradients, and with the module in evaluation mode. A metric is reported
  /// under "validation_" and its name. A metric without a name gets the name of TrainerOptions::metric; the prefix is
  /// then not repeated.
  virtual Metrics validation_step(const Batch& batch) { return {{"loss", training_step(batch).item<double>()}}; }
  /// A schedule may use context().expected_steps().
  virtual Optimization configure_optimizers() { return {}; }
  /// Options for Ddp; used with FitStrategy::kCopies.
  virtual DdpOptions configure_copies() { return {}; }
  /// Options for Sharded; used with the strategies that divide. FitOptions::bf16 overrides `param` and `reduce`.
  virtual ShardOptions configure_sharding() { return {}; }
  /// Adds further values that the training resumes from. A process that takes a dead rank's place does not get values
  /// that each rank has of its own (State::add_of_rank). Where there are such values, and the training has a folder,
  /// all ranks begin again at the newest checkpoint instead.
  virtual void add_to_state(State&) {}

  /// The device on which the module is trained: the GPU that the rank has reserved, or the CPU. In the constructor it
  /// is the CPU: fit() moves the module afterwards.
  at::Device device() const { return device_; }
  /// A field of a batch as a tensor on device(). Throws NotFound if there is no such field. Batches are made on the
  /// host; those of training_step() are copied to a GPU while it still computes the step before.
  at::Tensor on_device(const Batch& batch, std::string_view field) const;

 protected:
  /// The training: its ranks and steps. Valid only inside of fit(), so not in the constructor of the Learner.
  TrainContext& context() const { return *context_; }

 private:
  friend PHAROS_API void detail::fit(TrainContext& context, Learner& learner, const FitOptions& options,
                                     std::optional<DiskBacked>& disk);
  TrainContext* context_ = nullptr;
  at::Device device_{at::kCPU};
  std::shared_ptr<DeviceCopies> copies_{};
};

struct FitOptions {
  std::size_t batch = 32;  ///< Samples of one rank in one backward.
  /// Backwards in each step of the optimizer. Divided gradients (ZeRO-2, fully sharded) are reduced in each backward.
  std::size_t accumulate = 1;
  std::uint64_t epochs = 1;  ///< 0: as many epochs as `steps` needs.
  /// The training ends after that step, even in the middle of an epoch. 0: it ends with the last epoch.
  std::uint64_t steps = 0;
  /// Validates after each so many epochs, and at the end of the training. 0: never. With TrainerOptions::keep_best the
  /// validated steps are saved.
  std::uint64_t validate_every = 1;
  FitStrategy strategy = FitStrategy::kByMemory;
  /// Bytes that a rank may use for the model and what belongs to it; kByMemory chooses by this. 0: half of the memory
  /// of the node's machine, or of the limit of its cgroup, divided by the number of ranks on the node.
  std::uint64_t memory = 0;
  /// A folder on each rank's own disk, in which the module is made before the ranks divide it: see DiskBacked. Empty:
  /// the module is made in memory.
  std::string made_in{};
  /// The module's parameters and buffers become bfloat16, and its inputs must be bfloat16, too. Floats of the
  /// parameters are kept beside them for the optimizer.
  bool bf16 = false;
  /// For modules of floats: what training_step() and validation_step() compute in; see Autocast.
  Precision precision = Precision::kFloat;
  /// Checks each gradient. If an element is NaN or infinite, fit() throws FailedPrecondition with the name of the
  /// parameter. Costs one reading of all gradients. Gradients of a step that is saved are checked in any case.
  bool check_numbers = false;
  std::size_t loader_threads = 1;
  Tail tail = Tail::kUneven;
  /// Each step's report has the seconds of its phases: data, forward, backward, communication, and rank 0's optimizer.
  bool report_phases = false;
  /// Floating point operations for one sample, forward and backward together, and the operations that the machine of
  /// one rank can do in a second. With both, reports have "mfu" (model FLOPs utilisation), which is flops_per_sample *
  /// samples per second / (ranks * peak_flops).
  double flops_per_sample = 0;
  double peak_flops = 0;
};

/// Trains the learner as one rank. Call it from a training function of your own, on all ranks and on the rank's thread;
/// it returns when the training has ended or was stopped. The context keeps nothing of the learner afterwards, so the
/// learner may be destroyed. A rank that has reserved a GPU (TrainerOptions::scaling) trains on that GPU. Each step
/// reports "loss", "lr" and "samples_per_second".
///
/// With FitStrategy::kCopies a rank that dies is replaced, and the other ranks go on with the interrupted step. With
/// the strategies that divide, all ranks begin again at the newest checkpoint. So does a module with a SyncBatchNorm,
/// because that keeps the ranks with which it was made: make it in module(), and take a Tail that gives all ranks
/// batches of the same size.
///
/// Throws InvalidArgument for options that make no sense and for validation data of fewer samples than ranks, and what
/// the learner, Ddp, Sharded and TrainContext::resume() throw. Throws a failure between ranks if no process takes the
/// place of a dead rank; the Trainer deals with that. Throws UserError, on all ranks and before any parameter changes,
/// if the loss is not finite, or, with Optimization::clip_norm, if the norm of the gradients is not finite although
/// each of them is. Throws FailedPrecondition, with the name of the parameter, for a gradient that is not finite, with
/// check_numbers, with clip_norm or in a step that is to be saved.
PHAROS_API void fit(TrainContext& context, Learner& learner, const FitOptions& options);

namespace detail {

/// Gives libtorch as many threads as the rank has CPUs, at least one, and seeds its random numbers alike on all ranks.
/// Throws what own_device() throws.
PHAROS_API void prepare_rank(const TrainContext& context);

template <class T, class... Args>
void fit_as_rank(TrainContext& context, const FitOptions& options, const Args&... args) {
  prepare_rank(context);
  std::optional<DiskBacked> disk;
  if (!options.made_in.empty()) disk.emplace(options.made_in);
  T learner(args...);
  fit(context, learner, options, disk);
}

}  // namespace detail

/// Makes a T from `args` at each rank of the trainer, and trains it. In each rank libtorch has as many threads as the
/// rank has CPUs. If the training has a folder, its last step is saved. Blocks the calling thread until the training is
/// over, and throws what Trainer::run() throws, which includes what fit() throws at the ranks.
template <class T, class... Args>
TrainResult fit(Trainer& trainer, const FitOptions& options, Args&&... args) {
  return trainer.run<&detail::fit_as_rank<T, pharos::detail::SentArgument<Args>...>>(options,
                                                                                     std::forward<Args>(args)...);
}

}  // namespace pharos::ml
