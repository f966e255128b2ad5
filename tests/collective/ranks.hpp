#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/communicator.hpp>

#include "core.hpp"
#include "meeting.hpp"
#include "says.hpp"
#include "shared_backend.hpp"

namespace pharos::ml {

/// What a rank of a test runs.
using Rank = std::function<void(Communicator& ranks)>;

/// Ranks that are threads of this process.
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

/// Ranks that are processes, children of this one. Those that `may_die` need not end well.
inline void run_processes(std::uint32_t count, const CommunicatorOptions& options, const Rank& body,
                          const std::vector<std::uint32_t>& may_die = {}) {
  auto memory = Mapping::of(-1, Meeting::bytes_for(count));
  ASSERT_TRUE(memory);
  std::vector<pid_t> children;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    try {
      auto backend = SharedBackend::make(*std::move(memory), rank, count, options.timeout);
      if (!backend) throw_error(backend.error());
      Communicator ranks{std::make_shared<detail::Core>(*std::move(backend), options)};
      body(ranks);
    } catch (const std::exception& e) {
      ADD_FAILURE() << "rank " << rank << ": " << e.what();
    }
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(children[rank], &status, 0), children[rank]);
    const bool dies = std::find(may_die.begin(), may_die.end(), rank) != may_die.end();
    EXPECT_TRUE(dies || status == 0) << "rank " << rank << " ended with " << status;
  }
}

}  // namespace pharos::ml
