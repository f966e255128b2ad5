#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <sys/resource.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/actors/runtime.hpp>
#include <pharos/ml/device.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/ml/module_state.hpp>
#include <pharos/ml/module_summary.hpp>
#include <pharos/ml/random_state.hpp>
#include <pharos/ml/sync_batch_norm.hpp>
#include <pharos/ml/training.hpp>

#include "fit/asked_metrics.hpp"
#include "fit/at_work.hpp"
#include "fit/batches_ahead.hpp"
#include "fit/callbacks.hpp"
#include "fit/choice.hpp"
#include "fit/device_copies.hpp"
#include "fit/fit_model.hpp"
#include "fit/logged_means.hpp"
#include "fit/part_optimizers.hpp"
#include "fit/precision.hpp"
#include "fit/validation.hpp"

namespace pharos::ml {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr std::string_view kPeakMemory = "peak_memory_mib";

/// The most memory of the host that this process has had.
double peak_memory_mib() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_maxrss) / 1024;
}

void check(const FitOptions& options) {
  const auto refuse = [](std::string what, std::string remedy) {
    throw_error(Error{ErrorCode::kInvalidArgument, std::move(what), std::move(remedy)});
  };
  if (options.epochs == 0 && options.steps == 0) {
    refuse("FitOptions::epochs and FitOptions::steps are both 0, so the training would never end",
           "Set FitOptions::epochs or FitOptions::steps.");
  }
  if (options.accumulate == 0)
    refuse("FitOptions::accumulate is 0, but a step needs at least one backward",
           "Set FitOptions::accumulate to 1 or more.");
  if (options.precision == Precision::kFp16 && (options.check_numbers || options.bf16)) {
    refuse("Precision::kFp16 does not go together with FitOptions::check_numbers or FitOptions::bf16",
           "Leave both off: a step whose gradients are not finite is left out, and the parameters stay floats.");
  }
  if ((options.flops_per_sample > 0) != (options.peak_flops > 0)) {
    refuse("\"mfu\" needs FitOptions::flops_per_sample and FitOptions::peak_flops, and only one of them is set",
           "Set both, or neither of them.");
  }
}

/// The options of a dry run: one step, which is validated, and no model.
FitOptions tried_out(FitOptions options) {
  options.epochs = 0;
  options.steps = 1;
  options.validate_every = 1;
  options.return_model = false;
  return options;
}

/// The training loop of one rank. The random numbers of a step follow from the seed, the step and the rank, so that a
/// step which is done again draws the same numbers.
class Fit {
 public:
  /// `copies`: nullptr if the module is trained on the CPU.
  Fit(TrainContext& context, Learner& learner, const FitOptions& options, std::optional<DiskBacked>& disk,
      DeviceCopies* copies, LoggedMeans& logged)
      : context_{context},
        learner_{learner},
        options_{options},
        data_{learner.training_data()},
        copies_{copies},
        loader_{data_, loading(learner.training_order(data_->size()), options.tail)},
        batches_{loader_, copies},
        how_{optimization()},
        model_{make_model()},
        optimizers_{make_optimizers(disk)},
        validation_{context, learner, options, Pass::validation(learner), logged},
        callbacks_{context, learner},
        asked_metrics_{context, options, callbacks_.may_log()},
        logged_{logged} {
    if (options.dry_run) check_dry_run();
    if (options.precision == Precision::kFp16) scaler_.emplace();
    if (how_.ema_decay != 0) ema_ = model_->make_ema(how_.ema_decay);
  }
  Fit(Fit&&) = delete;
  ~Fit() { context_.forget_state(); }

  void all() {
    resume();
    callbacks_.begin();
    for (bool has_joined = false;;) {
      try {
        if (!std::exchange(has_joined, true)) {
          model_->join(context_.communicator(), context_.step());
          if (ema_ && context_.step() == 0) ema_->reset();  // join() may have brought rank 0's parameters
          batches_.seek(position_);
          asked_metrics_.look_at(validation_);
        }
        steps_to_end();
        if (options_.return_model) with_means([&] { context_.model() = model_->arrays(context_.communicator()); });
        break;
      } catch (const Exception& why) {
        if (!context_.rejoin(why)) throw;
        has_joined = false;
      }
    }
    callbacks_.end();
  }

 private:
  void steps_to_end() {
    while (context_.has_to_tell() || has_more()) {
      if (!context_.has_to_tell() && !step()) continue;
      if (tell() != Verdict::kGoOn) return;
    }
  }
  /// Not a part of the constructor: if this throws, the destructor must make the context forget the state, which names
  /// members of this object.
  void resume() {
    State state;
    model_->add_to(state);
    optimizers_.add_to(state, *model_);
    if (ema_) model_->add_to(state, *ema_);
    if (scaler_) add_to(state, *scaler_);
    state.add("position", position_);
    callbacks_.add_to(state);
    learner_.add_to_state(state);
    const OnRankDeath on_death = on_rank_death(state);
    context_.resume(std::move(state), on_death, options_.begin_from);
    if (context_.rank() == 0) std::fputs(model_->table().c_str(), stderr);
  }
  /// Called when the module is divided, so that all later tensors lie in memory.
  PartOptimizers make_optimizers(std::optional<DiskBacked>& disk) const {
    disk.reset();
    return {*model_, learner_.module(), how_};
  }
  Optimization optimization() {
    context_.expect(steps());
    Optimization how = learner_.configure_optimizers();
    if (!how.settings) {
      how.settings = decaying_matrices(how.weight_decay);
    } else if (how.weight_decay != 0) {
      throw_error(Error{ErrorCode::kInvalidArgument,
                        "Optimization::weight_decay does not go together with Optimization::settings",
                        "Return the weight decay of each parameter from the settings."});
    }
    return how;
  }
  std::unique_ptr<FitModel> make_model() {
    const ChosenStrategy chosen = chosen_strategy(context_, learner_, how_, options_);
    if (context_.rank() == 0) std::fputs(chosen.why.c_str(), stderr);
    return chosen.strategy.make_model(learner_, context_.communicator(), options_);
  }
  void check_dry_run() const {
    if (!context_.has_folder()) return;
    throw_error(Error{ErrorCode::kInvalidArgument, "a dry run was asked for, and the training has a folder",
                      "Leave TrainerOptions::folder empty for a dry run."});
  }
  /// A dead rank can only be replaced if its state is that of the other ranks: if parameters are copies, if no value
  /// belongs to one rank alone, and if no module keeps the ranks with which it was made. Values of one rank do not
  /// count without a folder, because they could not be loaded again either.
  OnRankDeath on_rank_death(const State& state) const {
    const auto is_of_rank = [](const State::Value& each) { return each.is_of_rank; };
    const bool is_copied = std::ranges::all_of(state.slices(), &StateSlice::is_shared);
    const bool has_own = context_.has_folder() && std::ranges::any_of(state.values(), is_of_rank);
    const auto has_ranks = [](const torch::nn::Module& module) {
      return dynamic_cast<const SyncBatchNormImpl*>(&module) != nullptr;
    };
    const torch::nn::Module& all = learner_.module();
    const bool knows_ranks =
        has_ranks(all) || std::ranges::any_of(all.modules(false), [&](const auto& each) { return has_ranks(*each); });
    return is_copied && !has_own && !knows_ranks ? OnRankDeath::kReplace : OnRankDeath::kBeginAgain;
  }
  LoaderOptions loading(const std::optional<Order>& order, Tail tail) const {
    return {.batch = options_.batch,
            .rank = context_.rank(),
            .ranks = context_.size(),
            .order = order,
            .seed = context_.seed(),
            .tail = tail,
            .threads = options_.loader_threads,
            .collate = learner_.collate(),
            .memory = copies_ == nullptr ? TakeMemory{} : &DeviceCopies::take_pinned};
  }

  std::uint64_t steps() const {
    const std::uint64_t batches = loader_.batches();
    const std::uint64_t all = options_.epochs * ((batches + options_.accumulate - 1) / options_.accumulate);
    if (options_.epochs == 0 || options_.steps == 0) return std::max(all, options_.steps);
    return std::min(all, options_.steps);
  }
  bool has_more() const {
    if (options_.steps != 0 && context_.step() >= options_.steps) return false;
    return options_.epochs == 0 || batches_.position().epoch < options_.epochs;
  }
  std::vector<Batch> next() {
    std::vector<Batch> batches;
    while (batches.size() < options_.accumulate) {
      auto batch = batches_.next();
      if (!batch) break;
      batches.push_back(*std::move(batch));
      if (batches_.at_end()) break;
    }
    return batches;
  }
  void seed_step() { seed_generators(mixed(context_.seed(), context_.step(), context_.rank())); }

  /// Returns whether this is the last step of the training. The last step is always saved, so that the folder has the
  /// result of the training.
  bool is_end(std::uint64_t step) const {
    if (options_.steps != 0 && step >= options_.steps) return true;
    return position_.epoch + 1 == options_.epochs && batches_.at_end();
  }
  /// Does a step up to its commit, and the optimizer's step. Returns false if there was only the end of an epoch.
  bool step() {
    const double began = now();
    const std::vector<Batch> batches = next();
    if (batches.empty()) return false;
    const double has_data = now();
    callbacks_.before_step(batches[0].epoch);
    seed_step();
    learner_.module().train();
    optimizers_.zero_grad();
    logged_.clear();
    const double scale = scaler_ ? scaler_->now() : 1;
    const auto loss_of = [this](const Batch& batch) {
      logged_.begin_batch(static_cast<double>(batch.samples));
      const auto autocast = autocast_of(learner_.device(), options_);
      return learner_.training_step(batch);
    };
    const std::optional<std::size_t> only = learner_.optimizer_of_step(context_.step());
    const FitModel::Backward done = [&] {
      // Also during backward, in which parts of the module may run again (ml::checkpoint).
      const PartOptimizers::Alone alone{optimizers_, only};
      return model_->backward(batches, loss_of, scale);
    }();
    if (copies_ != nullptr) copies_->keep_newest();
    model_->check_numbers(context_);
    const auto numbers = model_->numbers(done, has_length(), context_.communicator());
    const double length = numbers.norm / scale;
    const bool is_left_out = scaler_ && scale >= 1 && !std::isfinite(length);  // a smaller scale may help
    if (!is_left_out) {
      check_length(length, numbers.loss);
      const bool is_too_long = how_.clip_norm > 0 && length > how_.clip_norm;
      model_->scale((is_too_long ? how_.clip_norm / length : 1) / scale);
    }
    const double has_gradients = now();

    optimizers_.set_rates(context_.step(), callbacks_.rate_factor());
    double samples = 0;
    double samples_of_all = 0;
    for (const Batch& each : batches) {
      samples += static_cast<double>(each.samples);
      samples_of_all += static_cast<double>(each.samples_of_all);
    }
    const double rate = samples_of_all / std::max(has_gradients - std::exchange(before_, has_gradients), 1e-9);
    Metrics metrics{{"loss", numbers.loss}};
    optimizers_.report_rates(metrics);
    metrics.set("samples_per_second", rate);
    if (scaler_) metrics.set("loss_scale", scale);
    if (options_.flops_per_sample > 0) {
      metrics.set("mfu", options_.flops_per_sample * rate / (context_.size() * options_.peak_flops));
    }
    if (options_.report_phases) {
      metrics.set("data_s", has_data - began);
      metrics.set("forward_s", done.forward_seconds);
      metrics.set("backward_s", has_gradients - has_data - done.forward_seconds - done.waited_seconds);
      metrics.set("communication_s", done.waited_seconds);
    }
    add_logged(metrics, samples_of_all);
    asked_metrics_.look_at(metrics);
    position_ = batches_.position();
    const std::uint64_t next = context_.step() + 1;
    const bool is_to_be_saved = is_end(next) || (context_.keeps_best() && is_validated(next));
    context_.commit(metrics,
                    {.weight = samples, .epoch = batches[0].epoch, .save = is_to_be_saved, .stop = callbacks_.stops()});
    // After commit() all ranks know whether the step will be saved, and no parameter has changed yet. A step with
    // gradients that are not finite throws here, so that the newest checkpoint is one from before it. If their length
    // is known, it was checked above.
    if (context_.has_to_save() && !has_length()) model_->check_numbers_to_save(context_);
    const double committed = now();
    if (!is_left_out) optimizers_.step(only);
    if (ema_) ema_->update();
    if (scaler_) scaler_->adapt(!is_left_out);
    optimizer_seconds_ = now() - committed;
    return true;
  }

  /// Adds what the learner has logged in this step.
  void add_logged(Metrics& metrics, double samples_of_all) {
    const bool has_each_rank_samples = samples_of_all >= context_.size();
    const Metrics logged = has_each_rank_samples ? logged_.take() : logged_.take_as_rank_0(context_);
    for (const auto& [name, mean] : logged.entries()) {
      const bool is_of_fit =
          name.empty() || name == "optimizer_s" || name == kPeakMemory || name.starts_with("validation_");
      if (is_of_fit || metrics.find(name) != nullptr) {
        throw_error(Error{ErrorCode::kInvalidArgument, "the learner logs \"" + name + "\", which fit() reports itself",
                          "Choose another name."});
      }
      metrics.set(name, mean);
    }
  }

  /// Whether each step computes the norm of all gradients.
  bool has_length() const { return how_.clip_norm > 0 || scaler_; }
  // The norm is the same on all ranks, so all of them throw, before any parameter changes.
  void check_length(double length, double loss) {
    if (std::isfinite(length)) return;
    context_.check_number("loss", loss);
    model_->check_means(context_, context_.step() + 1);
    throw_error(Error{ErrorCode::kUserError, "the norm of all gradients is not finite in step " +
                                                 std::to_string(context_.step() + 1) +
                                                 ", although each element is finite"});
  }

  Verdict tell() {
    Metrics more;
    if (options_.report_phases) more.set("optimizer_s", optimizer_seconds_);
    if (is_validated(context_.step())) validate(more);
    if (options_.dry_run) {
      double most = peak_memory_mib();
      context_.communicator().all_reduce(std::span{&most, 1}, Reduction::kMax);
      more.set(kPeakMemory, most);
    }
    callbacks_.after_step(position_.epoch, more, batches_.at_end());
    return context_.tell(more);
  }

  bool is_validated(std::uint64_t step) const {
    if (!validation_.has_data()) return false;
    if (options_.validate_every_steps != 0 && step % options_.validate_every_steps == 0) return true;
    if (options_.validate_every == 0) return false;
    return is_end(step) || (batches_.at_end() && (position_.epoch + 1) % options_.validate_every == 0);
  }

  void validate(Metrics& metrics) {
    seed_step();
    Metrics of_all;
    with_means([&] { of_all = validation_.run(); });
    for (const auto& [name, mean] : of_all.entries()) metrics.set(name, mean);
    before_ = now();
  }
  /// Calls `work` while the model has the moving means, if there are any.
  template <class Work>
  void with_means(const Work& work) {
    if (!ema_) return work();
    model_->refresh();
    {
      const auto means = ema_->apply();
      model_->refresh();
      work();
      model_->refresh();
    }
    model_->refresh();
  }

  TrainContext& context_;
  Learner& learner_;
  const FitOptions& options_;
  const DatasetPtr data_;
  DeviceCopies* const copies_;
  Loader loader_;
  BatchesAhead batches_;
  const Optimization how_;
  const std::unique_ptr<FitModel> model_;
  PartOptimizers optimizers_;
  std::optional<GradScaler> scaler_;  // with Precision::kFp16
  std::unique_ptr<Ema> ema_;          // nullptr: there are no moving means
  Validation validation_;
  Callbacks callbacks_;
  AskedMetrics asked_metrics_;
  LoggedMeans& logged_;
  Position position_;  // position in the data after the last committed step
  double optimizer_seconds_ = 0;
  double before_ = now();
};

}  // namespace

void fit(TrainContext& context, Learner& learner, const FitOptions& options) {
  std::optional<DiskBacked> disk;
  detail::fit(context, learner, options, disk);
}

namespace detail {

void fit(TrainContext& context, Learner& learner, const FitOptions& asked, std::optional<DiskBacked>& disk) {
  const FitOptions options = asked.dry_run ? tried_out(asked) : asked;
  check(options);
  LearnerAtWork at_work{context, learner};
  std::optional<Fit> training;  // still there when the error counts its bytes
  try {
    at_work.move_to_device();
    if (options.dry_run && context.rank() == 0) std::fputs(summary_of(learner.module()).c_str(), stderr);
    training.emplace(context, learner, options, disk, at_work.copies(), at_work.logged());
    training->all();
  } catch (const c10::OutOfMemoryError& error) {
    throw_error(no_room_on(learner.device(), error.what_without_backtrace()));
  }
}

void prepare_rank(const TrainContext& context) {
  // Comes first, because the learner's constructor may ask libtorch for CUDA, and libtorch remembers its first answer.
  own_device();
  const double cpus = pharos::context().cpus;
  at::set_num_threads(std::max(1, static_cast<int>(cpus)));
  seed_generators(context.seed());
}

}  // namespace detail
}  // namespace pharos::ml
