#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
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

/// Training of a class that says what is learned, with all that goes around it:
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

struct Optimization {
  Rule rule = AdamW{};
  double weight_decay = 0;
  /// A factor of the rule's rate for each step.
  Schedule schedule = constant();
  /// Gradients are no longer than that, all together. 0: as long as they are.
  double clip_norm = 0;
};

class Learner;
struct FitOptions;

namespace detail {
/// Without `disk` once the module is divided.
PHAROS_API void fit(TrainContext& context, Learner& learner, const FitOptions& options,
                    std::optional<DiskBacked>& disk);
}  // namespace detail

/// What is learned, and from what. Each rank makes one, with the same random numbers, and is its only thread. When a
/// rank dies, another one is made in a new process, which has the others' state; a step that was interrupted is done
/// again.
class PHAROS_API Learner {
 public:
  Learner() = default;
  Learner(Learner&&) = delete;
  virtual ~Learner();

  virtual torch::nn::Module& module() = 0;
  virtual DatasetPtr training_data() = 0;
  /// In which order its samples come, in each epoch. None: shuffled by the training's seed. For PyTorch's order:
  /// Order::as_torch(samples, context().seed()), with FitOptions::tail as its sampler pads or drops.
  virtual std::optional<Order> training_order(std::uint64_t samples);
  /// The mean loss of a batch.
  virtual at::Tensor training_step(const Batch& batch) = 0;

  /// Without: nothing is validated.
  virtual DatasetPtr validation_data() { return nullptr; }
  /// Means over a batch, without gradients, with the module in evaluation; reported as "validation_" and the name,
  /// which is the metric that matters where there is none.
  virtual Metrics validation_step(const Batch& batch) { return {{"loss", training_step(batch).item<double>()}}; }
  /// For schedules: context().expected_steps().
  virtual Optimization configure_optimizers() { return {}; }
  /// Of the strategy that is taken, if it is that; the numbers' types follow from FitOptions::bf16.
  virtual DdpOptions configure_copies() { return {}; }
  virtual ShardOptions configure_sharding() { return {}; }
  /// What else is to be gone on from. Who takes a dead rank's place has nothing of what each rank has of its own
  /// (State::add_of_rank): where there is such, and a folder, all begin again at the newest checkpoint.
  virtual void add_to_state(State&) {}

  /// Where the module is trained: the GPU that the rank has reserved, or the CPU. A batch is on the host, and goes
  /// there by `tensor_of(batch["image"]).to(device())`. The CPU in the constructor: fit() moves the module.
  at::Device device() const { return device_; }

 protected:
  /// The training that it is learned in: ranks, steps. None in its constructor.
  TrainContext& context() const { return *context_; }

 private:
  friend PHAROS_API void detail::fit(TrainContext& context, Learner& learner, const FitOptions& options,
                                     std::optional<DiskBacked>& disk);
  TrainContext* context_ = nullptr;
  at::Device device_{at::kCPU};
};

struct FitOptions {
  std::size_t batch = 32;  ///< samples of a rank in a backward
  /// Backwards for each step of the optimizer. Divided gradients (ZeRO-2, fully sharded) are reduced in each of them.
  std::size_t accumulate = 1;
  std::uint64_t epochs = 1;  ///< 0: as many as it takes for `steps`
  /// The training ends with that step, wherever it is in an epoch. 0: with the last epoch.
  std::uint64_t steps = 0;
  /// Each so many epochs, and at the end. With TrainerOptions::keep_best those steps are saved.
  std::uint64_t validate_every = 1;
  FitStrategy strategy = FitStrategy::kByMemory;
  /// Bytes that a rank may take for the model and what belongs to it. 0: half of what its node's machine has, or its
  /// cgroup allows, shared by the node's ranks.
  std::uint64_t memory = 0;
  /// A folder of each rank's disk, where the module is made before the ranks divide it: see DiskBacked. Empty: in
  /// memory.
  std::string made_in{};
  /// The module computes in bfloat16, and is to be given that; floats of its parameters are kept beside it.
  bool bf16 = false;
  /// What training_step() and validation_step() compute in, where the module is of floats: see Autocast.
  Precision precision = Precision::kFloat;
  /// Looks at each gradient: one that is no number is an error, with its parameter. Costs one reading of all gradients.
  /// In a step that is saved they are looked at anyway.
  bool check_numbers = false;
  std::size_t loader_threads = 1;
  Tail tail = Tail::kUneven;
  /// Each step's report has the seconds of its phases: data, forward, backward, communication, and rank 0's optimizer.
  bool report_phases = false;
  /// Operations for one sample, forward and backward, and what the ranks' machines can do in a second, each: then
  /// reports have "mfu", which is flops_per_sample * samples a second / (ranks * peak_flops).
  double flops_per_sample = 0;
  double peak_flops = 0;
};

/// Trains it as a rank; for training functions of one's own. A rank that has reserved a GPU trains on it
/// (TrainerOptions::scaling); there the ranks train copies. Each step reports "loss", "lr" and "samples_per_second".
/// With FitStrategy::kCopies a rank that dies is replaced, and the others go on with the step they were at; what is
/// divided is gone on with from the newest checkpoint, and so is a module with a SyncBatchNorm, which keeps to the
/// ranks that it was made with: make it in module(), and take a Tail that gives all ranks batches of the same size.
/// Throws InvalidArgument for options that make no sense; UserError, on all ranks and before a parameter follows it,
/// for a loss or a gradients' length that is no finite number; FailedPrecondition for what check_numbers finds, and for
/// a gradient of a step that is to be saved.
PHAROS_API void fit(TrainContext& context, Learner& learner, const FitOptions& options);

namespace detail {

/// As many threads as it has CPUs, one at least; and the same random numbers as all.
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

/// Makes a T from `args` at each rank of the trainer's, and trains it. libtorch has as many threads there as the rank
/// has CPUs. With a folder the last step is saved.
template <class T, class... Args>
TrainResult fit(Trainer& trainer, const FitOptions& options, Args&&... args) {
  return trainer.run<&detail::fit_as_rank<T, pharos::detail::SentArgument<Args>...>>(options,
                                                                                     std::forward<Args>(args)...);
}

}  // namespace pharos::ml
