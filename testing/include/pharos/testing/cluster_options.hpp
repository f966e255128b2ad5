#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/clock.hpp>

namespace pharos::testing {

/// A simulated machine: what its node offers.
struct Machine {
  std::uint32_t cpus = 4;
  std::uint32_t gpus = 0;
  std::map<std::string, double> resources{};  ///< further ones, by name
  ByteCount object_store = 64_MiB;            ///< real memory, but only what is used
};

/// How long messages take. The seed draws the time of each.
struct Delays {
  Duration least = std::chrono::microseconds{10};
  Duration most = std::chrono::microseconds{120};
  std::uint64_t one_in = 50;  ///< one message in this many takes from `most` to `longest`
  Duration longest = std::chrono::milliseconds{8};
};

struct ClusterOptions {
  std::vector<Machine> machines{Machine{}};  ///< the first has the head, the others join it
  Delays delays{};
  bool keeps_records = false;  ///< the head survives its process, as that of `pharos start --state`
};

}  // namespace pharos::testing
