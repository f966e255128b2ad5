#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace pharos::ml {

/// "1.5 MiB", or "23.8 KiB" below a mebibyte: for tables about modules. Never fails; any thread.
inline std::string text_of_bytes(double bytes) {
  std::array<char, 32> text{};
  const bool is_small = bytes < (1 << 20);
  std::snprintf(text.data(), text.size(), "%.1f %s", bytes / (is_small ? 1 << 10 : 1 << 20), is_small ? "KiB" : "MiB");
  return text.data();
}

}  // namespace pharos::ml
