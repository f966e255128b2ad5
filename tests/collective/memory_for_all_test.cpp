// Memory that all ranks of a machine share.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/communicator.hpp>

#include "ranks.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

TEST(MemoryForAll, IsOneForAllRanks) {
  const auto look = [](Communicator& ranks) {
    for (const std::size_t elements : {std::size_t{0}, std::size_t{3}, std::size_t{100'000}}) {
      const auto memory = ranks.allocate_for_all<std::int32_t>(elements);
      ASSERT_EQ(memory.size(), elements);
      for (const std::int32_t each : memory.span()) ASSERT_EQ(each, 0);
      ranks.barrier();
      for (int round = 1; round <= 3; ++round) {
        const auto written = [&](std::size_t i) { return static_cast<std::int32_t>(round * 1000 + i % ranks.size()); };
        for (std::size_t i = ranks.rank(); i < elements; i += ranks.size()) memory[i] = written(i);
        ranks.barrier();
        for (std::size_t i = 0; i < elements; ++i) ASSERT_EQ(memory[i], written(i));
        ranks.barrier();
      }
    }
  };
  run_threads(3, {}, look);
  run_processes(4, {}, look);
  run_threads(1, {}, look);
}

/// Memory that one rank has given back stays valid for the other ranks.
TEST(MemoryForAll, IsGivenBackByEachRankWhenItLikes) {
  run_processes(3, {}, [](Communicator& ranks) {
    std::optional memory{ranks.allocate_for_all<double>(50'000)};
    if (ranks.rank() == 1) (*memory)[49'999] = 3;
    ranks.barrier();
    if (ranks.rank() == 0) memory.reset();
    const auto other = ranks.allocate_for_all<double>(50'000);
    if (memory) {
      EXPECT_EQ((*memory)[49'999], 3);
    }
    EXPECT_EQ(other[49'999], 0);
    if (memory) (*memory)[0] = 5;
    ranks.barrier();
    EXPECT_EQ(other[0], 0);
  });
}

TEST(MemoryForAll, IsAsMuchOnAllRanksThatShareAny) {
  run_processes(2, {}, [](Communicator& ranks) {
    EXPECT_SAYS(
        message_of<InvalidArgument>([&] { static_cast<void>(ranks.allocate_for_all<float>(10 + ranks.rank())); }),
        "rank 0 called allocate_for_all(40 bytes), and rank 1 called allocate_for_all(44 bytes)");
  });
  run_processes(2, {}, [](Communicator& ranks) {
    EXPECT_SAYS(message_of<InvalidArgument>([&] {
                  if (ranks.rank() == 0) static_cast<void>(ranks.allocate<float>(10));
                  if (ranks.rank() == 1) static_cast<void>(ranks.allocate_for_all<float>(10));
                }),
                "rank 0 called allocate(40 bytes), and rank 1 called allocate_for_all(40 bytes)");
  });
  run_streams(2, {}, [](Communicator& ranks) {
    EXPECT_SAYS(message_of<FailedPrecondition>([&] { static_cast<void>(ranks.allocate_for_all<float>(10)); }),
                "allocate_for_all() needs ranks that share memory");
  });
}

}  // namespace
}  // namespace pharos::ml
