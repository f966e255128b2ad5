#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include <pharos/testing/cluster_options.hpp>

namespace pharos::simulator {

/// Machines with so many CPUs, two GPUs, and an object store that is so small that it can get full.
inline std::vector<testing::Machine> machines(std::initializer_list<std::uint32_t> cpus) {
  std::vector<testing::Machine> all;
  for (const std::uint32_t each : cpus) {
    all.push_back({.cpus = each, .gpus = 2, .resources = {{"desk", 16}, {"seat", 16}}, .object_store = 8_MiB});
  }
  return all;
}

}  // namespace pharos::simulator
