#pragma once

#include <stdexcept>
#include <string>

namespace pharos {

/// In an actor, whose process is another one than the test's, where EXPECT_TRUE would not be heard: throws.
inline void demand(bool holds, const char* what) {
  if (!holds) throw std::runtime_error{std::string{"it does not hold that "} + what};
}

}  // namespace pharos
