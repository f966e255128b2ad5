#pragma once

#include <span>

#include <pharos/ml/fit_strategy.hpp>

#include "fit/strategy.hpp"

namespace pharos::ml {

/// All strategies, in the order in which choose_strategy() tries them.
std::span<const TrainingStrategy* const> strategies();
/// Throws InvalidArgument for kByMemory and for a number that is no FitStrategy.
const TrainingStrategy& strategy_of(FitStrategy id);

}  // namespace pharos::ml
