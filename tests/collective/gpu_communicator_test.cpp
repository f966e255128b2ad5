#include <gtest/gtest.h>

#include <array>
#include <span>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/gpu_communicator.hpp>

#include "says.hpp"

namespace pharos::ml {
namespace {

template <class Ranks, class Data>
concept CanReduce = requires(Ranks& ranks, Data data) {
  ranks.all_reduce(data);
};
template <class Ranks, class From, class To>
concept CanGather = requires(Ranks& ranks, From from, To to) {
  ranks.all_gather(from, to);
};

// The wrong memory does not compile.
static_assert(CanReduce<Communicator, std::span<float>> && CanReduce<GpuCommunicator, GpuSpan<float>>);
static_assert(!CanReduce<Communicator, GpuSpan<float>> && !CanReduce<GpuCommunicator, std::span<float>>);
static_assert(CanGather<GpuCommunicator, GpuSpan<const float>, GpuSpan<float>>);
static_assert(!CanGather<GpuCommunicator, std::span<const float>, GpuSpan<float>>);
static_assert(!CanGather<Communicator, std::span<const float>, GpuSpan<float>>);

TEST(GpuCommunicatorTest, RanksOnTheHostAreRefused) {
  EXPECT_SAYS(message_of<InvalidArgument>([] { GpuCommunicator{Communicator::alone()}; }),
              "the data of these ranks is in the memory of the host");
}

TEST(GpuSpanTest, HasParts) {
  std::array<float, 10> numbers{};
  const GpuSpan<float> all{numbers.data(), numbers.size()};
  EXPECT_EQ(all.size_bytes(), 40U);
  const GpuSpan<const float> part = all.subspan(2, 3);
  EXPECT_EQ(part.size(), 3U);
  EXPECT_EQ(part.data(), &numbers[2]);
  EXPECT_EQ(all.subspan(4).size(), 6U);
  EXPECT_EQ(all.first(1).size(), 1U);
}

}  // namespace
}  // namespace pharos::ml
