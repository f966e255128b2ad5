#pragma once

#include <string>

#include "fit/strategy.hpp"

namespace pharos::ml {

struct Optimization;
class TrainContext;

/// A strategy, and why it was chosen: text for people, empty if the options name the strategy. A value.
struct ChosenStrategy {
  const TrainingStrategy& strategy;
  std::string why{};
};
/// The strategy that the options name, or, with FitStrategy::kByMemory, the one that all ranks choose together by their
/// memory. Throws what fails between the ranks.
ChosenStrategy chosen_strategy(TrainContext& context, Learner& learner, const Optimization& how,
                               const FitOptions& options);

}  // namespace pharos::ml
