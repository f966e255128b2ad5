#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace pharos {

/// Returns whether the memory at `place` is mapped from a file that was deleted.
inline bool lies_in_file(const void* place) {
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    const auto begin = std::stoull(line, nullptr, 16);
    const auto end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    if (address >= begin && address < end) return line.ends_with(" (deleted)");
  }
  return false;
}

}  // namespace pharos
