#include "fit/model_size.hpp"

#include <torch/nn/module.h>

#include <algorithm>

#include "fit/part_optimizers.hpp"
#include "module/parameters.hpp"
#include "parallel/shards.hpp"
#include "parallel/units.hpp"

namespace pharos::ml {
namespace {

/// Adds the bytes of divided parameters and gradients that a rank has whole at the same time. This follows the way in
/// which Gathering and Reducing use memory.
void add_units(FitSize& size, const torch::nn::Module& module, const ShardOptions& how, std::uint32_t ranks) {
  constexpr std::uint64_t kReduced = 2;
  const Modules blocks = how.blocks.empty() ? blocks_of(module) : how.blocks;
  std::uint64_t largest = 0;
  std::uint64_t largest_gradients = 0;
  std::uint64_t passing = 0;
  for (const Unit& unit : units_of(module, parameters_of(module), blocks, ranks)) {
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

ShardOptions shard_options(Learner& learner, const FitOptions& options) {
  ShardOptions how = learner.configure_sharding();
  if (options.bf16) {
    how.param = DType::kBF16;
    how.reduce = DType::kF32;
  }
  return how;
}

FitSize size_of_model(Learner& learner, const Optimization& how, const FitOptions& options, const Communicator& ranks) {
  const torch::nn::Module& module = learner.module();
  FitSize size{.bytes = options.bf16 ? std::size_t{2} : std::size_t{4}, .kept = 0};
  for (const NamedTensor& each : parameters_of(module)) {
    const auto count = static_cast<std::uint64_t>(each.tensor.numel());
    const std::size_t bytes = options.bf16 ? 2 : static_cast<std::size_t>(each.tensor.element_size());
    if (!each.tensor.requires_grad()) {
      size.frozen_bytes += count * bytes;
    } else {
      const ParameterSettings settings = how.settings({each.name, each.tensor.sizes().vec()});
      // A validation keeps the parameters while the moving means are in their place.
      const std::size_t means = how.ema_decay != 0 ? 2 : 0;
      size.kept = std::max(size.kept, names_of(settings.rule.value_or(rule_for(how, each.name))).size() + means);
      size.parameters += count;
      size.bytes = std::max(size.bytes, bytes);
    }
  }
  size.reads_in_place = learner.device().is_cpu() && ranks.shares_memory();
  add_units(size, module, shard_options(learner, options), ranks.size());
  return size;
}

}  // namespace pharos::ml
