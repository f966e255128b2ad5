#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>

namespace pharos::scheduler {

/// Environment variables that a task or an actor has beside those of its program: "NAME=VALUE", by their names. Empty
/// for the program's own.
using Environment = std::vector<std::string>;

inline constexpr std::size_t kEnvironmentBytesMax = std::size_t{64} << 10;

/// Makes one of an option of users. Fails as check_environment().
Result<Environment> environment_of(const std::map<std::string, std::string>& variables);
/// Returns kInvalidArgument if a variable has no name, a name or value has a zero byte, two names are the same or not
/// in their order, or all of them are larger than kEnvironmentBytesMax.
Result<void> check_environment(const Environment& environment);
/// Returns the variables of `of` with those of `with`, which replace others of the same name.
Environment joined(Environment of, const Environment& with);

}  // namespace pharos::scheduler
