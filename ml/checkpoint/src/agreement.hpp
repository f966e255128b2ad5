#pragma once

#include <optional>
#include <string>

#include <pharos/base/result.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// To be called by all ranks. All get the same error: of the lowest rank with kInvalidArgument, else of the lowest rank
/// with any error. Returns nullopt if no rank has an error.
std::optional<Error> first_error(Communicator& ranks, const std::optional<Error>& own);

/// To be called by all ranks. Returns the text of rank 0.
std::string text_of_first(Communicator& ranks, const std::string& own);

}  // namespace pharos::ml
