#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace pharos {

/// A part of this process's memory, as /proc/self/maps has it.
struct Mapping {
  std::string path{};       ///< of a file, if it is one
  bool is_shared = false;   ///< with other processes, also what is written
  std::uint64_t place = 0;  ///< of the address that was asked for, in the file
};

/// What an address lies in.
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

/// Whether any of the file is mapped.
inline bool is_mapped(const std::string& path) {
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(' ' + path)) return true;
  }
  return false;
}

}  // namespace pharos
