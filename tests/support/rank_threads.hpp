#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// The code that each rank of a test runs.
using Rank = std::function<void(Communicator& ranks)>;

/// Runs `body` as `count` ranks, which are threads of this process. An exception of a rank fails the test.
inline void run_threads(std::uint32_t count, const CommunicatorOptions& options, const Rank& body) {
  Communicator::Threads threads{count, options};
  std::vector<std::thread> all;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    all.emplace_back([&, rank] {
      try {
        Communicator ranks = threads.join(rank);
        body(ranks);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "rank " << rank << ": " << e.what();
      }
    });
  }
  for (std::thread& each : all) each.join();
}

}  // namespace pharos::ml
