// Results of ranks on GPUs, and the errors of a rank that has no GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <span>
#include <thread>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/nccl.hpp>

#include "gpu_ranks.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

/// The value of rank `rank` at `place`: small integers, so that every sum is exact.
float given(std::uint32_t rank, std::size_t place) {
  return static_cast<float>((place * 7 + rank * 3) % 5);
}
std::vector<float> all_given(std::uint32_t rank, std::size_t count) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = given(rank, i);
  return all;
}
float sum(std::uint32_t ranks, std::size_t place) {
  float result = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) result += given(rank, place);
  return result;
}

using Nccl = OnGpus;

TEST_F(Nccl, ReducesGathersPassesOnAndExchanges) {
  run([](Communicator& ranks, Communicator& gpus) {
    const std::uint32_t world = gpus.size();
    for (const std::size_t n : {1UL, 1000UL, 100'000UL}) {
      const auto data = gpus.allocate<float>(n * world);
      for (const float each : on_host<float>(data.span())) ASSERT_EQ(each, 0);
      to_gpu(all_given(ranks.rank(), n * world), data.span());
      const auto piece = gpus.allocate<float>(n);
      gpus.reduce_scatter(std::span<const float>{data.span()}, piece.span());
      const auto pieces = on_host<float>(piece.span());
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(pieces[i], sum(world, ranks.rank() * n + i));
      gpus.all_reduce(data.span());
      const auto sums = on_host<float>(data.span());
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(sums[i], sum(world, i));
      gpus.all_gather(std::span<const float>{piece.span()}, data.span());
      EXPECT_EQ(on_host<float>(data.span()), sums);
      gpus.broadcast(data.span(), world - 1);
      const auto other = gpus.allocate<float>(n * world);
      gpus.all_to_all(std::span<const float>{data.span()}, other.span());
      EXPECT_EQ(on_host<float>(other.span())[0], sums[ranks.rank() * n]);
      gpus.barrier();
    }
  });
}

TEST_F(Nccl, SeveralAreUnderWayAtOnceAndMessagesBesideThem) {
  run([](Communicator& ranks, Communicator& gpus) {
    const auto data = gpus.allocate<float>(10'000);
    const auto message = gpus.allocate<float>(1);
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < 10; ++i) {
      const auto part = data.span().subspan(i * 1000, 1000);
      to_gpu(std::vector<float>(1000, static_cast<float>(i)), part);
      pending.push_back(gpus.begin_all_reduce(part, Reduction::kMean));
    }
    if (gpus.size() > 1 && ranks.rank() == 0) gpus.send(std::span<const float>{message.span()}, 1);
    if (gpus.size() > 1 && ranks.rank() == 1) gpus.receive(message.span(), 0);
    for (Pending& each : pending) each.wait();
    const auto means = on_host<float>(data.span());
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(means[i * 1000 + 999], static_cast<float>(i));
  });
}

/// Fills the data on the default stream, without waiting for that.
void fill(std::span<float> data, int byte) {
  EXPECT_EQ(::cudaMemsetAsync(data.data(), byte, data.size_bytes(), nullptr), cudaSuccess);
}
float filled_with(int byte) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(byte) * 0x01010101U);
}

TEST_F(Nccl, AMessageHasWhatWasThereAndWaitsForWhoUsedItsPlace) {
  run([](Communicator& ranks, Communicator& gpus) {
    if (gpus.size() == 1) return;
    const auto data = gpus.allocate<float>(100'000);
    for (int byte = 1; byte <= 5; ++byte) {
      if (ranks.rank() == 0) {
        fill(data.span(), byte);
        gpus.send(std::span<const float>{data.span()}, 1);
        fill(data.span(), 99);
      } else if (ranks.rank() == 1) {
        fill(data.span(), 88);
        gpus.receive(data.span(), 0);
        const auto got = on_host<float>(data.span());
        EXPECT_EQ(std::ranges::count(got, filled_with(byte)), std::ssize(got));
      }
    }
  });
}

TEST_F(Nccl, AfterAFailureNothingUsesTheMemoryOfAMessage) {
  run([](Communicator& ranks, Communicator& gpus) {
    if (gpus.size() == 1) return;
    const auto data = gpus.allocate<float>(100'000);
    if (ranks.rank() == 0) {
      const Pending sent = gpus.begin_send(std::span<const float>{data.span()}, 1);
      gpus.abort("enough");
      fill(data.span(), 1);
      EXPECT_EQ(on_host<float>(data.span())[99'999], filled_with(1));
    }
    EXPECT_SAYS(message_of<Cancelled>([&] { gpus.barrier(); }), "enough");
  });
}

TEST_F(Nccl, AfterAFailureNothingUsesTheMemoryOfAnOperation) {
  run([](Communicator& ranks, Communicator& gpus) {
    if (gpus.size() == 1) return;
    const auto data = gpus.allocate<float>(100'000);
    gpus.all_reduce(data.span());
    if (ranks.rank() == 0) {
      const Pending alone = gpus.begin_all_reduce(data.span());
      gpus.abort("enough");
      fill(data.span(), 1);
      EXPECT_EQ(on_host<float>(data.span())[99'999], filled_with(1));
    }
    EXPECT_SAYS(message_of<Cancelled>([&] {
                  for (;; std::this_thread::sleep_for(std::chrono::milliseconds{1})) gpus.check();
                }),
                "enough");
  });
}

TEST_F(Nccl, DisagreementsAndGivingUpAreToldAsOnTheHost) {
  run([](Communicator& ranks, Communicator& gpus) {
    const auto data = gpus.allocate<float>(100);
    if (gpus.size() == 1) {
      gpus.abort("enough");
      EXPECT_SAYS(message_of<Cancelled>([&] { gpus.all_reduce(data.span()); }), "enough");
      return;
    }
    const std::string text =
        message_of<InvalidArgument>([&] { gpus.all_reduce(data.span().first(ranks.rank() == 0 ? 99 : 100)); });
    EXPECT_SAYS(text, "rank 0 called all_reduce(sum of 99 f32)");
  });
}

TEST_F(Nccl, ARankThatDiesIsNamedToTheOthers) {
  if (std::getenv("WORLD_SIZE") == nullptr) GTEST_SKIP() << "the ranks are threads of one process, and cannot die";
  run([](Communicator& ranks, Communicator& gpus) {
    const auto data = gpus.allocate<float>(1 << 20);
    gpus.all_reduce(data.span());
    if (ranks.rank() == 1) std::_Exit(0);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_SAYS(message_of<ActorDied>([&] { gpus.all_reduce(data.span()); }), "rank 1");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{2});
  });
}

// ctest runs this test with CUDA_VISIBLE_DEVICES empty, so that it holds on a machine with GPUs too.
TEST(WithoutGpu, TheMissingGpuIsNamed) {
  ASSERT_EQ(count_gpus(), 0U) << "set CUDA_VISIBLE_DEVICES to an empty text for this test";
  run_threads(1, {}, [](Communicator& ranks) {
    EXPECT_SAYS(message_of<FailedPrecondition>([&] { on_gpu(ranks, 0); }), "taking GPU 0");
  });
}

}  // namespace
}  // namespace pharos::ml
