#pragma once

#include <stdexcept>
#include <string>

namespace pharos {

/// Throws if `holds` is false. For actors: they run in other processes than the test, which would not see the failure
/// of an EXPECT_TRUE there.
inline void demand(bool holds, const char* what) {
  if (!holds) throw std::runtime_error{std::string{"it does not hold that "} + what};
}

}  // namespace pharos
