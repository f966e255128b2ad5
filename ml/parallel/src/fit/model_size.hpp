#pragma once

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/fit_options.hpp>
#include <pharos/ml/fit_strategy.hpp>
#include <pharos/ml/learner.hpp>
#include <pharos/ml/sharding.hpp>

namespace pharos::ml {

/// The learner's options for Sharded, with those that FitOptions overrides. fit() calls both functions, on the rank's
/// thread.
ShardOptions shard_options(Learner& learner, const FitOptions& options);

/// The sizes of the learner's model, for choose_strategy(). If parameters have different rules, all of them count as if
/// they had the rule that keeps most numbers. `how` has settings. Throws InvalidArgument for blocks or types of
/// ShardOptions that do not fit the module; does not ask other ranks.
FitSize size_of_model(Learner& learner, const Optimization& how, const FitOptions& options, const Communicator& ranks);

}  // namespace pharos::ml
