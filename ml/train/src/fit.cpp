#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/actors/runtime.hpp>
#include <pharos/base/machine_limits.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/ml/sync_batch_norm.hpp>
#include <pharos/ml/training.hpp>

#include "parameters.hpp"
#include "units.hpp"

namespace pharos::ml {
namespace {

using at::Tensor;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::size_t kept_by(const Rule& rule) {
  struct Kept {
    std::size_t operator()(const AdamW&) const { return 2; }
    std::size_t operator()(const Sgd& by) const { return by.momentum == 0 ? 0 : 1; }
    std::size_t operator()(const Lion&) const { return 1; }
  };
  return std::visit(Kept{}, rule);
}

void check(const FitOptions& options) {
  const auto refuse = [](std::string what, std::string remedy) {
    throw_error(Error{ErrorCode::kInvalidArgument, std::move(what), std::move(remedy)});
  };
  if (options.epochs == 0 && options.steps == 0) {
    refuse("a training that never ends was asked for", "Set FitOptions::epochs, or steps.");
  }
  if (options.accumulate == 0) refuse("a step of no backwards learns nothing", "Set FitOptions::accumulate.");
  if ((options.flops_per_sample > 0) != (options.peak_flops > 0)) {
    refuse("\"mfu\" is reckoned from two numbers, of which one was given",
           "Set FitOptions::flops_per_sample and peak_flops.");
  }
}

/// The module on all ranks, by one of the strategies.
class Model {
 public:
  Model(Learner& learner, Communicator& ranks, FitStrategy strategy, const FitOptions& options)
      : module_{learner.module()},
        checks_numbers_{options.check_numbers},
        keeps_gradients_{strategy == FitStrategy::kZero1} {
    if (options.bf16) halve(module_.buffers());
    if (strategy == FitStrategy::kCopies) {
      if (options.bf16) halve(module_.parameters());
      how_ = learner.configure_copies();
      how_.check_numbers = how_.check_numbers || checks_numbers_;
      return;
    }
    const auto sharding = strategy == FitStrategy::kZero1   ? Sharding::kOptimizer
                          : strategy == FitStrategy::kZero2 ? Sharding::kGradients
                                                            : Sharding::kParameters;
    ShardOptions how = learner.configure_sharding();
    if (options.bf16) {
      how.param = DType::kBF16;
      how.reduce = DType::kF32;
    }
    sharded_.emplace(module_, ranks, sharding, how);
  }

  /// What counts, such as the batches that a norm has seen, stays as it is.
  static void halve(const std::vector<Tensor>& tensors) {
    for (const Tensor& each : tensors) {
      if (each.is_floating_point()) each.set_data(each.to(at::kBFloat16));
    }
  }

  bool is_divided() const { return sharded_.has_value(); }
  /// Copies become one, with these ranks, behind that step.
  void join(Communicator& ranks, std::uint64_t step) {
    if (ranks.size() == 1 || sharded_) return;
    how_.first_step = step;
    ddp_.emplace(ranks, module_, how_);
  }

  std::vector<ParameterGroup> groups(double weight_decay) const {
    return sharded_ ? sharded_->groups(weight_decay) : groups_of(module_, weight_decay);
  }
  void add_to(State& state, Optimizer& optimizer) {
    if (sharded_) {
      ml::add_to(state, *sharded_, module_);
      ml::add_to(state, optimizer, *sharded_);
    } else {
      ml::add_to(state, module_);
      ml::add_to(state, optimizer, module_);
    }
  }
  /// Losses of batches of so many samples each become gradients of their mean, over all ranks.
  template <class Loss>
  double backward(const std::vector<Batch>& batches, const Loss& loss_of, double& forward_seconds) {
    const double waited_before = waited_for_parameters();  // in a validation
    waited_ = 0;
    double samples = 0;
    for (const Batch& each : batches) samples += static_cast<double>(each.samples);
    double mean = 0;
    // Where all ranks run the same graph, one that has nothing to learn from runs it, too.
    const bool takes_part = samples > 0 || sharded_;
    for (std::size_t i = 0; takes_part && i < batches.size(); ++i) {
      const double share =
          samples > 0 ? static_cast<double>(batches[i].samples) / samples : 1.0 / double(batches.size());
      const double began = now() - waited_for_parameters();
      const Tensor loss = loss_of(batches[i]) * share;
      forward_seconds += now() - waited_for_parameters() - began;
      mean += loss.template item<double>();
      backward(loss, samples, i + 1 == batches.size());
    }
    if (!takes_part) reduce(0, [] {});
    waited_ -= waited_before;
    return mean;
  }
  /// Of gradients that are the mean already. Ddp has looked at each rank's before.
  void check_numbers(TrainContext& context) const {
    if (!checks_numbers_ || ddp_) return;
    check_means(context, context.step() + 1);
  }
  /// Of a step that was committed, if they have not been looked at. Copies have the same, and wait for no other.
  void check_numbers_to_save(TrainContext& context) const {
    if (!checks_numbers_ || ddp_) check_means(context, context.step());
  }
  double clip(double max) { return sharded_ ? sharded_->clip_norm(max) : clip_norm(module_.parameters(), max); }
  /// Of the step that is done, in forward and in backward.
  double waited() const { return waited_; }
  std::string table() const { return sharded_ ? sharded_->table() : ""; }

 private:
  /// Of a batch of a step that has so many samples. What is divided is reduced each time, and adds up in the parts:
  /// whole gradients of all are what ranks have no memory for.
  void backward(const Tensor& loss, double samples, bool is_last) {
    if (ddp_ && !is_last) {
      const auto held_back = ddp_->no_sync();
      loss.backward();
    } else if (sharded_ && keeps_gradients_ && !is_last) {
      const auto held_back = sharded_->no_sync();
      loss.backward();
    } else {
      reduce(samples, [&] { loss.backward(); });
    }
  }
  template <class Work>
  void reduce(double samples, const Work& work) {
    if (sharded_) sharded_->weigh(samples);
    if (ddp_) ddp_->weigh(samples);
    work();
    const Duration waited = sharded_ ? sharded_->last_step().waited : ddp_ ? ddp_->last_step().waited : Duration{};
    waited_ += std::chrono::duration<double>(waited).count();
  }
  /// Since the last backward.
  double waited_for_parameters() const {
    return sharded_ ? std::chrono::duration<double>(sharded_->waited_for_parameters()).count() : 0;
  }
  void check_means(TrainContext& context, std::uint64_t step) const {
    const std::vector<NamedTensor> parameters = parameters_of(module_);
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    const auto look = [&](const std::string& name, const Tensor& gradient) {
      if (!gradient.defined() || at::isfinite(gradient).all().item<bool>()) return;
      const auto found = std::ranges::find(parameters, name, &NamedTensor::name);
      first = std::min<std::int64_t>(first, found - parameters.begin());
    };
    if (sharded_) {
      for (const Sharded::Slice& each : sharded_->slices()) look(each.name, each.values.grad());
      context.communicator().all_reduce(std::span{&first, 1}, Reduction::kMin);
    } else {
      for (const NamedTensor& each : parameters) look(each.name, each.tensor.grad());
    }
    if (first == std::numeric_limits<std::int64_t>::max()) return;
    throw_error(Error{ErrorCode::kFailedPrecondition,
                      "in step " + std::to_string(step) + " the gradient of \"" +
                          parameters.at(static_cast<std::size_t>(first)).name +
                          "\" has elements that are no finite numbers",
                      "Look at the data and the loss; a lower learning rate or clipping may help."});
  }

  torch::nn::Module& module_;
  const bool checks_numbers_;
  const bool keeps_gradients_;  // whole, where the rest is divided
  double waited_ = 0;
  DdpOptions how_;
  std::optional<Ddp> ddp_;
  std::optional<Sharded> sharded_;
};

/// Learns from batch after batch, as one rank. Random numbers of a step follow from the seed, the step and the rank.
class Fit {
 public:
  Fit(TrainContext& context, Learner& learner, const FitOptions& options)
      : context_{context},
        learner_{learner},
        options_{options},
        loader_{learner.training_data(), loading(std::nullopt, options.tail)},
        how_{optimization()},
        model_{learner, context.communicator(), strategy(), options},
        optimizer_{model_.groups(how_.weight_decay), how_.rule},
        rate_{optimizer_.lr()},
        validates_{learner.validation_data()} {
    if (validates_ != nullptr) check_validation();
    State state;
    model_.add_to(state, optimizer_);
    state.add("position", position_);
    learner.add_to_state(state);
    const OnRankDeath on_death = on_rank_death(state);
    context.resume(std::move(state), on_death);
    if (context.rank() == 0 && model_.is_divided()) std::fputs(model_.table().c_str(), stderr);
  }
  Fit(Fit&&) = delete;
  ~Fit() { context_.forget_state(); }

  void all() {
    for (bool has_joined = false;;) {
      try {
        if (!std::exchange(has_joined, true)) {
          model_.join(context_.communicator(), context_.step());
          loader_.seek(position_);
        }
        while (context_.has_to_tell() || has_more()) {
          if (!context_.has_to_tell() && !step()) continue;
          if (tell() != Verdict::kGoOn) return;
        }
        return;
      } catch (const Exception& why) {
        if (!context_.rejoin(why)) throw;
        has_joined = false;
      }
    }
  }

 private:
  Optimization optimization() {
    context_.expect(steps());
    return learner_.configure_optimizers();
  }
  void check_validation() const {
    if (validates_->size() >= context_.size()) return;
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "the validation data has " + std::to_string(validates_->size()) +
                          " samples, which are fewer than the " + std::to_string(context_.size()) + " ranks",
                      "Give more, or validate in training_step()'s data."});
  }
  /// Who takes a dead rank's place has what all have, and knows no other ranks than those that are there then.
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
            .threads = options_.loader_threads};
  }

  FitStrategy strategy() {
    if (options_.strategy != FitStrategy::kByMemory) return options_.strategy;
    if (context_.is_replacement()) return FitStrategy::kCopies;  // others are not replaced
    Communicator& ranks = context_.communicator();
    const std::uint64_t own = MachineLimits{}.memory().bytes() / 2 / ranks_of_node();
    auto memory = static_cast<std::int64_t>(options_.memory != 0 ? options_.memory : own);
    ranks.all_reduce(std::span{&memory, 1}, Reduction::kMin);  // all ranks take the same
    const FitChoice choice = choose_strategy(size(), ranks.size(), static_cast<std::uint64_t>(memory));
    if (ranks.rank() == 0) std::fputs(choice.arithmetic.c_str(), stderr);
    return choice.strategy;
  }
  FitSize size() const {
    FitSize size{.bytes = options_.bf16 ? std::size_t{2} : std::size_t{4}, .kept = kept_by(how_.rule)};
    const std::vector<NamedTensor> parameters = parameters_of(learner_.module());
    for (const NamedTensor& each : parameters) {
      const auto count = static_cast<std::uint64_t>(each.tensor.numel());
      const std::size_t bytes = options_.bf16 ? 2 : static_cast<std::size_t>(each.tensor.element_size());
      if (!each.tensor.requires_grad()) {
        size.frozen_bytes += count * bytes;
      } else {
        size.parameters += count;
        size.bytes = std::max(size.bytes, bytes);
      }
    }
    add_units(size, parameters);
    return size;
  }
  /// As Gathering and Reducing have them.
  void add_units(FitSize& size, const std::vector<NamedTensor>& parameters) const {
    constexpr std::uint64_t kGathered = 3;
    constexpr std::uint64_t kReduced = 2;
    const ShardOptions how = learner_.configure_sharding();
    const torch::nn::Module& module = learner_.module();
    const Modules blocks = how.blocks.empty() ? blocks_of(module) : how.blocks;
    std::uint64_t largest = 0;
    std::uint64_t largest_gradients = 0;
    std::uint64_t passing = 0;
    for (const Unit& unit : units_of(module, parameters, blocks, context_.size())) {
      std::uint64_t bytes = 0;
      std::uint64_t gradients = 0;
      for (const Flat& each : unit.flats) {
        const auto count = static_cast<std::uint64_t>(each.size);
        bytes += count * (options_.bf16 ? 2 : c10::elementSize(each.type));
        if (each.is_trained) gradients += count * (options_.bf16 ? 4 : c10::elementSize(each.type));
      }
      if (unit.is_rest || !how.reshard_after_forward) {
        size.gathered_bytes += bytes;
      } else {
        largest = std::max(largest, bytes);
      }
      if (unit.is_rest) {
        size.gradient_bytes += gradients;
      } else {
        largest_gradients = std::max(largest_gradients, gradients);
        ++passing;
      }
    }
    size.gathered_bytes += std::min(passing, kGathered) * largest;
    size.gradient_bytes += std::min(passing, kReduced) * largest_gradients;
  }
  std::uint64_t ranks_of_node() {
    const auto own = static_cast<std::int64_t>(std::hash<std::string>{}(to_string(pharos::context().node)));
    std::vector<std::int64_t> all(context_.size());
    context_.communicator().all_gather(std::span<const std::int64_t>{&own, 1}, std::span{all});
    return static_cast<std::uint64_t>(std::ranges::count(all, own));
  }

  std::uint64_t steps() const {
    const std::uint64_t batches = loader_.batches();
    const std::uint64_t all = options_.epochs * ((batches + options_.accumulate - 1) / options_.accumulate);
    if (options_.epochs == 0 || options_.steps == 0) return std::max(all, options_.steps);
    return std::min(all, options_.steps);
  }
  bool has_more() const {
    if (options_.steps != 0 && context_.step() >= options_.steps) return false;
    return options_.epochs == 0 || loader_.position().epoch < options_.epochs;
  }
  std::vector<Batch> next() {
    std::vector<Batch> batches;
    while (batches.size() < options_.accumulate) {
      auto batch = loader_.next();
      if (!batch) break;
      batches.push_back(*std::move(batch));
      if (loader_.at_end()) break;
    }
    return batches;
  }
  void seed_step() { detail::seed_all(mixed(context_.seed(), context_.step(), context_.rank())); }

  /// Whether no other follows that step. It is saved then, whatever else is: what has been learned is in the folder.
  bool is_end(std::uint64_t step) const {
    if (options_.steps != 0 && step >= options_.steps) return true;
    return position_.epoch + 1 == options_.epochs && loader_.at_end();
  }
  /// False: there was nothing but an epoch's end.
  bool step() {
    const double began = now();
    const std::vector<Batch> batches = next();
    if (batches.empty()) return false;
    const double has_data = now();
    seed_step();
    learner_.module().train();
    optimizer_.zero_grad();
    double forward = 0;
    const double loss = model_.backward(
        batches, [this](const Batch& batch) { return learner_.training_step(batch); }, forward);
    model_.check_numbers(context_);
    if (how_.clip_norm > 0) check_length(model_.clip(how_.clip_norm), loss);
    const double has_gradients = now();

    optimizer_.set_lr(rate_ * how_.schedule(context_.step()));
    double samples = 0;
    double samples_of_all = 0;
    for (const Batch& each : batches) {
      samples += static_cast<double>(each.samples);
      samples_of_all += static_cast<double>(each.samples_of_all);
    }
    const double rate = samples_of_all / std::max(has_gradients - std::exchange(before_, has_gradients), 1e-9);
    Metrics metrics{{"loss", loss}, {"lr", optimizer_.lr()}, {"samples_per_second", rate}};
    if (options_.flops_per_sample > 0) {
      metrics.set("mfu", options_.flops_per_sample * rate / (context_.size() * options_.peak_flops));
    }
    if (options_.report_phases) {
      metrics.set("data_s", has_data - began);
      metrics.set("forward_s", forward);
      metrics.set("backward_s", has_gradients - has_data - forward - model_.waited());
      metrics.set("communication_s", model_.waited());
    }
    position_ = loader_.position();
    const std::uint64_t next = context_.step() + 1;
    const bool is_to_be_saved = is_end(next) || (context_.keeps_best() && is_validated(next));
    context_.commit(metrics, {.weight = samples, .epoch = batches[0].epoch, .save = is_to_be_saved});
    // Here it is known by all whether it is saved, and nothing has followed the gradients. Whoever begins again is to
    // find a checkpoint of before.
    if (context_.has_to_save() && how_.clip_norm <= 0) model_.check_numbers_to_save(context_);
    const double committed = now();
    optimizer_.step();
    optimizer_seconds_ = now() - committed;
    return true;
  }

  // All ranks have the same, and throw, before a parameter follows.
  void check_length(double length, double loss) {
    if (std::isfinite(length)) return;
    context_.check_number("loss", loss);
    throw_error(Error{ErrorCode::kUserError,
                      "the length of all gradients is no finite number in step " + std::to_string(context_.step() + 1),
                      "FitOptions::check_numbers says which parameter's gradient was the first."});
  }

  Verdict tell() {
    Metrics more;
    if (options_.report_phases) more.set("optimizer_s", optimizer_seconds_);
    if (is_validated(context_.step())) validate(more);
    return context_.tell(more);
  }

  bool is_validated(std::uint64_t step) const {
    if (validates_ == nullptr || options_.validate_every == 0) return false;
    return is_end(step) || (loader_.at_end() && (position_.epoch + 1) % options_.validate_every == 0);
  }

  // No sample twice: ranks that have none take part with one that does not count.
  void validate(Metrics& metrics) {
    const at::NoGradGuard no_grad;
    seed_step();
    learner_.module().eval();
    Loader loader{validates_, loading(Order::in_turn(validates_->size()), Tail::kUneven)};
    std::map<std::string, double> sums;
    double samples = 0;
    while (const auto batch = loader.next()) {
      const auto count = static_cast<double>(batch->samples);
      const Metrics of_batch = learner_.validation_step(*batch);
      for (const auto& [name, value] : of_batch.entries()) {
        sums[name] += count > 0 ? count * value : 0;
      }
      samples += count;
    }
    Metrics means;
    for (const auto& [name, sum] : sums) means.set(validated(name), samples > 0 ? sum / samples : 0);
    const Metrics of_all = context_.mean(means, samples);
    for (const auto& [name, mean] : of_all.entries()) metrics.set(name, mean);
    before_ = now();
  }

  /// One without a name is the metric that matters.
  std::string validated(const std::string& name) const {
    constexpr std::string_view kPrefix = "validation_";
    if (name.empty() && context_.metric().starts_with(kPrefix)) return context_.metric();
    return std::string{kPrefix} + (name.empty() ? context_.metric() : name);
  }

  TrainContext& context_;
  Learner& learner_;
  const FitOptions& options_;
  Loader loader_;
  const Optimization how_;
  Model model_;
  Optimizer optimizer_;
  const double rate_;
  const DatasetPtr validates_;
  Position position_;  // behind the last step that was committed
  double optimizer_seconds_ = 0;
  double before_ = now();
};

}  // namespace

Learner::~Learner() = default;

void fit(TrainContext& context, Learner& learner, const FitOptions& options) {
  check(options);
  learner.context_ = &context;
  Fit{context, learner, options}.all();
}

namespace detail {

void prepare_rank(const TrainContext& context) {
  const double cpus = pharos::context().cpus;
  at::set_num_threads(std::max(1, static_cast<int>(cpus)));
  seed_all(context.seed());
}

void seed_all(std::uint64_t seed) {
  at::Generator random = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock{random.mutex()};
  random.set_current_seed(seed);
}

}  // namespace detail
}  // namespace pharos::ml
