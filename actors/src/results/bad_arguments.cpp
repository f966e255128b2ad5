#include "results/bad_arguments.hpp"

#include <pharos/actors/function.hpp>

namespace pharos::detail {

void throw_bad_arguments() {
  throw actors::BadArguments{Error{ErrorCode::kInvalidArgument,
                                   "the arguments that arrived do not match the function's parameters",
                                   "Caller and worker must be the same build."}
                                 .with_outcome(Outcome::kNotStarted)};
}

}  // namespace pharos::detail
