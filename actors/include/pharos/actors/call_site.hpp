#pragma once

#include <cstdint>

namespace pharos {

/// A place in a program's source, for messages. A value; the name of the file lives as long as the program. As a
/// default argument, `CallSite site = CallSite::here()`, it is the place of the call. It is used because not every
/// compiler of C++20 has std::source_location.
struct CallSite {
  const char* file = "";
  std::uint32_t line = 0;

  static constexpr CallSite here(const char* its_file = __builtin_FILE(), std::uint32_t its_line = __builtin_LINE()) {
    return {its_file, its_line};
  }
};

}  // namespace pharos
