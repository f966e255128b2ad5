#pragma once

#include <pharos/ml/fit.hpp>

namespace pharos::ml {

/// The learner's options for Sharded, with those that FitOptions overrides.
ShardOptions shard_options(Learner& learner, const FitOptions& options);

/// The sizes of the learner's model, for choose_strategy().
FitSize size_of_model(Learner& learner, const Rule& rule, const FitOptions& options, const Communicator& ranks);

}  // namespace pharos::ml
