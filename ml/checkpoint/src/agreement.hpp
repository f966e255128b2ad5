#pragma once

#include <optional>
#include <string>

#include <pharos/base/result.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// Checkpoints calls these functions on all ranks, at the same place. They wait for the other ranks, and throw what
/// operations of a Communicator throw.
///
/// All ranks get the same error: of the lowest rank with kInvalidArgument, else of the lowest rank with any error. With
/// several ranks its text begins with "rank 3: ". Returns nullopt if no rank has an error.
std::optional<Error> first_error(Communicator& ranks, const std::optional<Error>& own);

/// Returns the text of rank 0 on all ranks.
std::string text_of_first(Communicator& ranks, const std::string& own);

}  // namespace pharos::ml
