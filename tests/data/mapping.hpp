#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace pharos {

/// A mapping of this process's memory, from /proc/self/maps.
struct Mapping {
  std::string path{};       ///< the mapped file, or empty
  bool is_shared = false;   ///< other processes see written bytes too
  std::uint64_t place = 0;  ///< the offset in the file of the address that was asked for
};

/// Returns the mapping in which an address lies.
inline Mapping mapping_at(const void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    std::uint64_t offset = 0;
    char sharing = 0;
    const int read = std::sscanf(line.c_str(), "%lx-%lx %*3c%c %lx", &from, &to, &sharing, &offset);
    if (read != 4 || address < from || address >= to) continue;
    const std::size_t path = line.find('/');
    return {path == std::string::npos ? "" : line.substr(path), sharing == 's', address - from + offset};
  }
  return {};
}

/// Returns whether any part of the file is mapped.
inline bool is_mapped(const std::string& path) {
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(' ' + path)) return true;
  }
  return false;
}

}  // namespace pharos
