#pragma once

#include <optional>
#include <string>

#include <pharos/base/result.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// All ranks call it, and have the error of the first rank that has one: of a bad argument, or else of anything.
std::optional<Error> first_error(Communicator& ranks, const std::optional<Error>& own);

/// Rank 0's, on all of them.
std::string text_of_first(Communicator& ranks, const std::string& own);

}  // namespace pharos::ml
