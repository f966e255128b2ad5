#include "fit/choice.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/runtime.hpp>
#include <pharos/base/machine_limits.hpp>
#include <pharos/ml/device.hpp>
#include <pharos/ml/fit_options.hpp>
#include <pharos/ml/learner.hpp>
#include <pharos/ml/train_context.hpp>

#include "fit/model_size.hpp"
#include "fit/strategies.hpp"

namespace pharos::ml {
namespace {

std::uint64_t memory_of_device(const Learner& learner) {
  return learner.device().is_cpu() ? MachineLimits{}.memory().bytes() : memory_of(learner.device());
}

/// The number of ranks whose memory is that of this rank's machine, or of its GPU.
std::uint64_t ranks_that_share_it(TrainContext& context, const Learner& learner) {
  const at::Device device = learner.device();
  const auto& here = pharos::context();
  std::string place = to_string(here.node);
  if (!device.is_cpu()) place += " " + here.gpus.at(static_cast<std::size_t>(device.index()));
  const auto own = static_cast<std::int64_t>(std::hash<std::string>{}(place));
  std::vector<std::int64_t> all(context.size());
  context.communicator().all_gather(std::span<const std::int64_t>{&own, 1}, std::span{all});
  return static_cast<std::uint64_t>(std::ranges::count(all, own));
}

}  // namespace

ChosenStrategy chosen_strategy(TrainContext& context, Learner& learner, const Optimization& how,
                               const FitOptions& options) {
  if (options.strategy != FitStrategy::kByMemory) return {strategy_of(options.strategy)};
  // Only ranks that are alike are replaced.
  if (context.is_replacement()) return {**std::ranges::find_if(strategies(), &TrainingStrategy::ranks_are_alike)};
  Communicator& ranks = context.communicator();
  const std::uint64_t own = memory_of_device(learner) / 2 / ranks_that_share_it(context, learner);
  auto memory = static_cast<std::int64_t>(options.memory != 0 ? options.memory : own);
  ranks.all_reduce(std::span{&memory, 1}, Reduction::kMin);  // all ranks must choose the same strategy
  FitChoice choice =
      choose_strategy(size_of_model(learner, how, options, ranks), ranks.size(), static_cast<std::uint64_t>(memory));
  return {strategy_of(choice.strategy), std::move(choice.arithmetic)};
}

}  // namespace pharos::ml
