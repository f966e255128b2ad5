#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/ddp_options.hpp>
#include <pharos/ml/disk_backed.hpp>
#include <pharos/ml/fit_callback.hpp>
#include <pharos/ml/loader.hpp>
#include <pharos/ml/measures.hpp>
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/module_state.hpp>
#include <pharos/ml/parameter_settings.hpp>
#include <pharos/ml/rule.hpp>
#include <pharos/ml/schedule.hpp>
#include <pharos/ml/sharding.hpp>
#include <pharos/ml/train_context.hpp>

namespace torch::nn {
class Module;
}

namespace pharos::ml {

class DeviceCopies;
class LearnerAtWork;
class LoggedMeans;

/// One of several optimizers of a Learner. A value.
struct PartOptimizer {
  /// This optimizer trains the parameters whose names begin with this, "embedding." for example, and that no optimizer
  /// before it in the list trains. Empty: all that are left.
  std::string parameters{};
  Rule rule = AdamW{};
  /// The learning rate is multiplied by this schedule's factor, too. Steps are those of the training.
  Schedule schedule = constant();
};

/// The optimizer of a Learner, or its optimizers. A value.
struct Optimization {
  /// torch_rule() makes a rule of an optimizer of libtorch.
  Rule rule = AdamW{};
  /// Several optimizers, in place of `rule`. All other members are about all parameters. See also
  /// Learner::optimizer_of_step(). fit() throws InvalidArgument if a parameter that is trained has no optimizer, or if
  /// an optimizer has no parameter.
  std::vector<PartOptimizer> parts{};
  /// Decay of parameters of two or more dimensions.
  double weight_decay = 0;
  /// Says for each parameter how it is trained, if not all of them are trained alike: see ParameterSettings. Not
  /// together with `weight_decay`.
  SettingsOf settings{};
  /// In each step the rule's learning rate is multiplied by this schedule's factor.
  Schedule schedule = constant();
  /// Decay of moving means of the parameters (Ema), which are then what is validated; checkpoints keep them beside the
  /// parameters. 0: there are none.
  double ema_decay = 0;
  /// Upper bound for the norm of all gradients, taken as one vector. 0: gradients are not clipped.
  double clip_norm = 0;
};

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
  /// How samples become batches, of all data. Empty: as Batch says.
  virtual Collate collate() { return {}; }
  /// Returns the mean loss of a batch. May log() other means.
  virtual at::Tensor training_step(const Batch& batch) = 0;

  /// nullptr: nothing is validated.
  virtual DatasetPtr validation_data() { return nullptr; }
  /// Returns means over a batch. Called without gradients, and with the module in evaluation mode. A metric is reported
  /// under "validation_" and its name. A metric without a name gets the name of TrainerOptions::metric; the prefix is
  /// then not repeated.
  virtual Metrics validation_step(const Batch& batch) { return {{"loss", training_step(batch).item<double>()}}; }
  /// Measures to which validation_step() and test_step() add their batches; see Measure. They are begun anew for each
  /// pass over the data, and reported afterwards. Called once.
  virtual std::vector<NamedMeasure> measures() { return {}; }
  /// What test() looks at, and what it does with a batch: as validation_step(), with "test_" in place of "validation_".
  /// Without test data test() throws InvalidArgument.
  virtual DatasetPtr test_data() { return nullptr; }
  virtual Metrics test_step(const Batch& batch) { return validation_step(batch); }
  /// The data for which predict() predicts. Without them it throws InvalidArgument.
  virtual DatasetPtr prediction_data() { return test_data(); }
  /// Returns one row for each sample of the batch, on any device. Called as validation_step() is. All rows have one
  /// type and shape. The default throws Unsupported.
  virtual at::Tensor predict_step(const Batch& batch);
  /// What else is to be done in the training, such as lower_rate_on(Plateau{}). Called once; fit() keeps them until it
  /// returns.
  virtual std::vector<std::shared_ptr<FitCallback>> callbacks() { return {}; }
  /// A schedule may use context().expected_steps().
  virtual Optimization configure_optimizers() { return {}; }
  /// With several optimizers: the place in Optimization::parts of the one that takes this step, counted from 0; the
  /// same on all ranks. The parameters of the others need no gradients during that step, and stay as they are. nullopt:
  /// all optimizers take the step. So two networks that are trained against each other take turns:
  ///
  ///   std::optional<std::size_t> optimizer_of_step(std::uint64_t step) override { return step % 2; }
  ///   at::Tensor training_step(const ml::Batch& batch) override {
  ///     return optimizer_of_step(context().step()) == 0 ? loss_of_critic(batch) : loss_of_generator(batch);
  ///   }
  virtual std::optional<std::size_t> optimizer_of_step(std::uint64_t) { return std::nullopt; }
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
  /// host; those of training_step() are copied to a GPU while it still computes the step before, except that fields
  /// which collate() has made, and lengths, are copied by the thread that trains.
  at::Tensor on_device(const Batch& batch, std::string_view field) const;

 protected:
  /// Reports the mean of a batch under that name: of training_step() in the report of the step, and of
  /// validation_step() with "validation_" before it. It becomes the mean over the samples of all ranks. `mean` has one
  /// element, on any device, and the device goes on while it is read. All ranks log the same names. Throws
  /// InvalidArgument for a tensor of other elements, and FailedPrecondition outside of fit().
  void log(std::string_view name, const at::Tensor& mean);
  void log(std::string_view name, double mean);

  /// The training, or the pass: its ranks and steps. Valid only inside of fit(), test() and predict(), so not in the
  /// constructor of the Learner.
  TrainContext& context() const { return *context_; }

 private:
  friend class LearnerAtWork;
  TrainContext* context_ = nullptr;
  at::Device device_{at::kCPU};
  std::shared_ptr<DeviceCopies> copies_{};
  std::shared_ptr<LoggedMeans> logged_{};
};

}  // namespace pharos::ml
