#pragma once

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/fit_options.hpp>
#include <pharos/ml/fit_strategy.hpp>
#include <pharos/ml/learner.hpp>
#include <pharos/ml/rule.hpp>
#include <pharos/ml/sharding.hpp>

namespace pharos::ml {

/// The learner's options for Sharded, with those that FitOptions overrides. fit() calls both functions, on the rank's
/// thread.
ShardOptions shard_options(Learner& learner, const FitOptions& options);

/// The sizes of the learner's model, for choose_strategy(). Throws InvalidArgument for blocks or types of ShardOptions
/// that do not fit the module; does not ask other ranks.
FitSize size_of_model(Learner& learner, const Rule& rule, const FitOptions& options, const Communicator& ranks);

}  // namespace pharos::ml
