#include "fit/fit_model.hpp"

#include <ATen/ops/isfinite.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/device.hpp>
#include <pharos/ml/training.hpp>

#include "module/parameters.hpp"
#include "parallel/shards.hpp"
#include "parallel/units.hpp"

namespace pharos::ml {
namespace {

using at::Tensor;

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Converts floating point tensors to bfloat16. Counters, such as the number of batches that a norm has seen, stay as
/// they are.
void halve(const std::vector<Tensor>& tensors) {
  for (const Tensor& each : tensors) {
    if (each.is_floating_point()) each.set_data(each.to(at::kBFloat16));
  }
}

std::size_t kept_by(const Rule& rule) {
  struct Kept {
    std::size_t operator()(const AdamW&) const { return 2; }
    std::size_t operator()(const Sgd& by) const { return by.momentum == 0 ? 0 : 1; }
    std::size_t operator()(const Lion&) const { return 1; }
  };
  return std::visit(Kept{}, rule);
}

ShardOptions sharding(Learner& learner, const FitOptions& options) {
  ShardOptions how = learner.configure_sharding();
  if (options.bf16) {
    how.param = DType::kBF16;
    how.reduce = DType::kF32;
  }
  return how;
}

/// Adds the bytes of divided parameters and gradients that a rank has whole at the same time. This follows the way in
/// which Gathering and Reducing use memory.
void add_units(FitSize& size, const torch::nn::Module& module, const ShardOptions& how, const Communicator& ranks) {
  constexpr std::uint64_t kReduced = 2;
  const Modules blocks = how.blocks.empty() ? blocks_of(module) : how.blocks;
  std::uint64_t largest = 0;
  std::uint64_t largest_gradients = 0;
  std::uint64_t passing = 0;
  size.reads_in_place = ranks.shares_memory();
  for (const Unit& unit : units_of(module, parameters_of(module), blocks, ranks.size())) {
    std::uint64_t bytes = 0;
    std::uint64_t gradients = 0;
    for (const Flat& each : unit.flats) {
      const auto count = static_cast<std::uint64_t>(each.size);
      const at::ScalarType computed = computed_type(each, how.param);
      size.reads_in_place = size.reads_in_place && computed == kept_type(each);
      bytes += count * c10::elementSize(computed);
      if (each.is_trained) gradients += count * (how.reduce ? size_of(*how.reduce) : c10::elementSize(computed));
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
  size.gathered_bytes += std::min<std::uint64_t>(passing, kGatheredAtOnce) * largest;
  if (size.reads_in_place) size.gathered_bytes = 0;
  size.gradient_bytes += std::min(passing, kReduced) * largest_gradients;
}

}  // namespace

FitModel::FitModel(Learner& learner, Communicator& ranks, FitStrategy strategy, const FitOptions& options,
                   at::Device device)
    : module_{learner.module()},
      checks_numbers_{options.check_numbers},
      keeps_gradients_{strategy == FitStrategy::kZero1},
      device_{device} {
  if (options.bf16) halve(module_.buffers());
  if (strategy == FitStrategy::kCopies) {
    if (options.bf16) halve(module_.parameters());
    how_ = learner.configure_copies();
    how_.check_numbers = how_.check_numbers || checks_numbers_;
    return;
  }
  const auto kind = strategy == FitStrategy::kZero1   ? Sharding::kOptimizer
                    : strategy == FitStrategy::kZero2 ? Sharding::kGradients
                                                      : Sharding::kParameters;
  sharded_.emplace(module_, ranks, kind, sharding(learner, options));
}

void FitModel::join(Communicator& ranks, std::uint64_t step) {
  if (ranks.size() == 1 || sharded_) return;
  how_.first_step = step;
  if (device_.is_cpu()) {
    ddp_.emplace(ranks, module_, how_);
    return;
  }
  // A GPU may have no memory for the old buckets and the new ones at the same time.
  for (const Tensor& each : module_.parameters()) each.mutable_grad().reset();
  ddp_.reset();
  gpus_.reset();
  gpus_ = communicator_on(device_, ranks);
  ddp_.emplace(ranks, *gpus_, module_, how_);
}

std::vector<ParameterGroup> FitModel::groups(double weight_decay) const {
  return sharded_ ? sharded_->groups(weight_decay) : groups_of(module_, weight_decay);
}

void FitModel::add_to(State& state, Optimizer& optimizer) {
  if (sharded_) {
    ml::add_to(state, *sharded_, module_);
    ml::add_to(state, optimizer, *sharded_);
  } else {
    ml::add_to(state, module_);
    ml::add_to(state, optimizer, module_);
  }
}

FitModel::Backward FitModel::backward(const std::vector<Batch>& batches,
                                      const std::function<Tensor(const Batch&)>& loss_of) {
  Backward done;
  const double waited_before = waited_for_parameters();  // waits of a validation are not part of this step
  waited_ = 0;
  double samples = 0;
  for (const Batch& each : batches) samples += static_cast<double>(each.samples);
  // With a divided module all ranks must run the same graph, so a rank without samples runs it, too.
  const bool takes_part = samples > 0 || sharded_;
  for (std::size_t i = 0; takes_part && i < batches.size(); ++i) {
    const double share =
        samples > 0 ? static_cast<double>(batches[i].samples) / samples : 1.0 / static_cast<double>(batches.size());
    const double began = clock_seconds() - waited_for_parameters();
    const Tensor loss = loss_of(batches[i]) * share;
    done.forward_seconds += clock_seconds() - waited_for_parameters() - began;
    done.loss += loss.item<double>();
    backward(loss, samples, i + 1 == batches.size());
  }
  if (!takes_part) reduce(0, [] {});
  done.waited_seconds = waited_ - waited_before;
  return done;
}

/// Runs the backward of one batch of a step with `samples` samples. Divided gradients are reduced after each batch, and
/// are summed up in the ranks' parts, because ranks have no memory for all gradients as a whole.
void FitModel::backward(const Tensor& loss, double samples, bool is_last) {
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
void FitModel::reduce(double samples, const Work& work) {
  const double began = clock_seconds();
  if (sharded_) sharded_->weigh(samples);
  if (ddp_) ddp_->weigh(samples);
  waited_ += clock_seconds() - began;  // weigh() waits for slower ranks
  work();
  const Duration waited = sharded_ ? sharded_->last_step().waited : ddp_ ? ddp_->last_step().waited : Duration{};
  waited_ += std::chrono::duration<double>(waited).count();
}

/// Seconds that operators have waited for parameters since the last backward.
double FitModel::waited_for_parameters() const {
  return sharded_ ? std::chrono::duration<double>(sharded_->waited_for_parameters()).count() : 0;
}

double FitModel::clip(double max) {
  return sharded_ ? sharded_->clip_norm(max) : clip_norm(module_.parameters(), max);
}

void FitModel::check_numbers(TrainContext& context) const {
  if (!checks_numbers_ || ddp_) return;
  check_means(context, context.step() + 1);
}

void FitModel::check_numbers_to_save(TrainContext& context) const {
  if (!checks_numbers_ || ddp_) check_means(context, context.step());
}

void FitModel::check_means(TrainContext& context, std::uint64_t step) const {
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
                        parameters.at(static_cast<std::size_t>(first)).name + "\" has elements that are not finite",
                    "Look at the data and the loss; a lower learning rate or clipping may help."});
}

FitSize size_of_model(Learner& learner, const Rule& rule, const FitOptions& options, const Communicator& ranks) {
  const torch::nn::Module& module = learner.module();
  FitSize size{.bytes = options.bf16 ? std::size_t{2} : std::size_t{4}, .kept = kept_by(rule)};
  for (const NamedTensor& each : parameters_of(module)) {
    const auto count = static_cast<std::uint64_t>(each.tensor.numel());
    const std::size_t bytes = options.bf16 ? 2 : static_cast<std::size_t>(each.tensor.element_size());
    if (!each.tensor.requires_grad()) {
      size.frozen_bytes += count * bytes;
    } else {
      size.parameters += count;
      size.bytes = std::max(size.bytes, bytes);
    }
  }
  add_units(size, module, sharding(learner, options), ranks);
  return size;
}

}  // namespace pharos::ml
