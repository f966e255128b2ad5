// Results of ranks on GPUs, and the errors of a rank that has no GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <span>
#include <thread>
#include <type_traits>
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

using Collectives = OnGpus;

/// Fills the data on the default stream, without waiting for that.
template <class T>
void fill(GpuSpan<T> data, int byte) {
  EXPECT_EQ(::cudaMemsetAsync(data.data(), byte, data.size_bytes(), nullptr), cudaSuccess);
}
float filled_with(int byte) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(byte) * 0x01010101U);
}

TEST_F(Collectives, ReducesGathersPassesOnAndExchanges) {
  run([](Communicator& ranks, GpuCommunicator& gpus) {
    const std::uint32_t world = gpus.size();
    for (const std::size_t n : {1UL, 1000UL, 100'000UL}) {
      const auto data = gpus.allocate<float>(n * world);
      for (const float each : on_host<float>(data.span())) ASSERT_EQ(each, 0);
      to_gpu(all_given(ranks.rank(), n * world), data.span());
      const auto piece = gpus.allocate<float>(n);
      gpus.reduce_scatter(GpuSpan<const float>{data.span()}, piece.span());
      const auto pieces = on_host<float>(piece.span());
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(pieces[i], sum(world, ranks.rank() * n + i));
      gpus.all_reduce(data.span());
      const auto sums = on_host<float>(data.span());
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(sums[i], sum(world, i));
      to_gpu(std::vector<float>(n * world), data.span());
      gpus.all_gather(GpuSpan<const float>{piece.span()}, data.span());
      EXPECT_EQ(on_host<float>(data.span()), sums);
      to_gpu(all_given(ranks.rank(), n * world), data.span());
      const auto other = gpus.allocate<float>(n * world);
      gpus.all_to_all(GpuSpan<const float>{data.span()}, other.span());
      const auto exchanged = on_host<float>(other.span());
      for (std::uint32_t from = 0; from < world; ++from) {
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(exchanged[from * n + i], given(from, ranks.rank() * n + i));
      }
      gpus.broadcast(data.span(), world - 1);
      EXPECT_EQ(on_host<float>(data.span()), all_given(world - 1, n * world));
      gpus.barrier();
    }
  });
}

/// Memory of the GPU that is not of a communicator.
class ForeignMemory {
 public:
  explicit ForeignMemory(std::size_t bytes) {
    EXPECT_EQ(::cudaMalloc(&memory_, bytes), cudaSuccess);
    bytes_ = bytes;
  }
  ForeignMemory(ForeignMemory&&) = delete;
  ~ForeignMemory() { ::cudaFree(memory_); }

  template <class T>
  GpuSpan<T> as() const {
    return {static_cast<T*>(memory_), bytes_ / sizeof(T)};
  }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

template <class T>
T element_of(float value) {
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(value);
  } else {
    return static_cast<T>(value);
  }
}

/// All reductions of one type, in memory of the communicator and in other memory, at odd places: the GPUs give what the
/// ranks get on the host. The numbers are such that no result is rounded.
template <class T>
void reduces_as_on_the_host(Communicator& ranks, GpuCommunicator& gpus) {
  constexpr std::size_t kCount = 1001;
  std::vector<T> given(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const float half_if_real = is_real(kDTypeOf<T>) && i % 3 == 0 ? 0.5F : 0;
    given[i] = element_of<T>(static_cast<float>((i * 7 + ranks.rank() * 3) % 11) + half_if_real);
  }
  const auto own = gpus.allocate<T>(kCount + 1);
  const ForeignMemory foreign{(kCount + 1) * sizeof(T)};
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin}) {
    if (reduction == Reduction::kMean && !is_real(kDTypeOf<T>)) continue;  // refused
    std::vector<T> right = given;
    ranks.all_reduce(std::span{right}, reduction);
    for (const GpuSpan<T> place : {own.span().subspan(1), foreign.as<T>().subspan(1)}) {
      to_gpu(given, place);
      gpus.all_reduce(place, reduction);
      EXPECT_EQ(on_host<T>(place), right) << to_string(kDTypeOf<T>) << " " << to_string(reduction);
    }
  }
}

TEST_F(Collectives, AllTypesAreReducedAsOnTheHost) {
  run([](Communicator& ranks, GpuCommunicator& gpus) {
    reduces_as_on_the_host<std::uint8_t>(ranks, gpus);
    reduces_as_on_the_host<std::int8_t>(ranks, gpus);
    reduces_as_on_the_host<std::int32_t>(ranks, gpus);
    reduces_as_on_the_host<std::int64_t>(ranks, gpus);
    reduces_as_on_the_host<Half>(ranks, gpus);
    reduces_as_on_the_host<BFloat16>(ranks, gpus);
    reduces_as_on_the_host<float>(ranks, gpus);
    reduces_as_on_the_host<double>(ranks, gpus);
  });
}

/// One rank's data is in memory of the communicator, and that of the others is not. The longer data goes in parts.
TEST_F(Collectives, RanksNeedNotUseTheSameKindOfMemory) {
  run([](Communicator& ranks, GpuCommunicator& gpus) {
    const std::uint32_t world = gpus.size();
    for (const std::size_t n : {std::size_t{3}, std::size_t{2'200'003}}) {
      const auto own = gpus.allocate<double>(n * world);
      const auto own_piece = gpus.allocate<double>(n);
      const ForeignMemory foreign{n * world * sizeof(double)};
      const ForeignMemory foreign_piece{n * sizeof(double)};
      const bool is_own = ranks.rank() == 0;
      const GpuSpan<double> data = is_own ? own.span() : foreign.as<double>();
      const GpuSpan<double> piece = is_own ? own_piece.span() : foreign_piece.as<double>();
      std::vector<double> sums(n * world);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sum(world, i);
      const std::span<const double> sums_of_this = std::span{sums}.subspan(ranks.rank() * n, n);

      const std::vector<float> given_here = all_given(ranks.rank(), n * world);
      to_gpu(std::vector<double>(given_here.begin(), given_here.end()), data);
      gpus.reduce_scatter(GpuSpan<const double>{data}, piece);
      EXPECT_TRUE(std::ranges::equal(on_host<double>(piece), sums_of_this));
      gpus.all_reduce(data);
      EXPECT_EQ(on_host<double>(data), sums);
      fill(data, 1);
      gpus.all_gather(GpuSpan<const double>{piece}, data);
      EXPECT_EQ(on_host<double>(data), sums);
      if (ranks.rank() != world - 1) fill(data, 1);
      gpus.broadcast(data, world - 1);
      EXPECT_EQ(on_host<double>(data), sums);
      const ForeignMemory exchanged{n * world * sizeof(double)};
      gpus.all_to_all(GpuSpan<const double>{data}, exchanged.as<double>());
      const auto got = on_host<double>(exchanged.as<double>());
      for (std::uint32_t from = 0; from < world; ++from) {
        EXPECT_TRUE(std::ranges::equal(std::span{got}.subspan(from * n, n), sums_of_this));
      }
    }
  });
}

/// Memory that was freed is used again, and is empty then.
TEST_F(Collectives, NewMemoryIsEmpty) {
  run([](Communicator&, GpuCommunicator& gpus) {
    for (int i = 0; i < 5; ++i) {
      const auto data = gpus.allocate<float>(1000);
      for (const float each : on_host<float>(data.span())) ASSERT_EQ(each, 0);
      fill(data.span(), 7);
      gpus.all_reduce(data.span(), Reduction::kMax);
      EXPECT_EQ(on_host<float>(data.span())[999], filled_with(7));
    }
  });
}

/// What only run time can tell: bytes of unknown type.
TEST_F(Collectives, MemoryOfTheWrongKindIsNamed) {
  run([](Communicator& ranks, GpuCommunicator& gpus) {
    std::array<std::byte, 8> on_host{};
    const auto on_gpu = gpus.allocate<std::byte>(8 * gpus.size());
    const std::span all_on_gpu{on_gpu.data(), on_gpu.size()};
    EXPECT_SAYS(
        message_of<InvalidArgument>([&] { gpus.untyped().begin_all_gather(DType::kU8, on_host, all_on_gpu).wait(); }),
        "`from` of all_gather(), 8 bytes at 0x");
    EXPECT_SAYS(message_of<InvalidArgument>([&] { ranks.all_reduce(all_on_gpu); }), "is in the memory of a GPU");
    gpus.barrier();
  });
}

TEST_F(Collectives, SeveralAreUnderWayAtOnceAndMessagesBesideThem) {
  run([](Communicator& ranks, GpuCommunicator& gpus) {
    const auto data = gpus.allocate<float>(10'000);
    const auto message = gpus.allocate<float>(1);
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < 10; ++i) {
      const auto part = data.span().subspan(i * 1000, 1000);
      to_gpu(std::vector<float>(1000, static_cast<float>(i)), part);
      pending.push_back(gpus.begin_all_reduce(part, Reduction::kMean));
    }
    if (gpus.size() > 1 && ranks.rank() == 0) gpus.send(GpuSpan<const float>{message.span()}, 1);
    if (gpus.size() > 1 && ranks.rank() == 1) gpus.receive(message.span(), 0);
    for (Pending& each : pending) each.wait();
    const auto means = on_host<float>(data.span());
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(means[i * 1000 + 999], static_cast<float>(i));
  });
}

TEST_F(Collectives, AMessageHasWhatWasThereAndWaitsForWhoUsedItsPlace) {
  run([](Communicator& ranks, GpuCommunicator& gpus) {
    if (gpus.size() == 1) return;
    const auto data = gpus.allocate<float>(100'000);
    for (int byte = 1; byte <= 5; ++byte) {
      if (ranks.rank() == 0) {
        fill(data.span(), byte);
        gpus.send(GpuSpan<const float>{data.span()}, 1);
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

/// Runs `give_up`, in which rank 0 gives up, and waits until this rank has heard of it: that may be sooner.
void hear_enough(GpuCommunicator& gpus, const std::function<void()>& give_up) {
  EXPECT_SAYS(message_of<Cancelled>([&] {
                give_up();
                for (;; std::this_thread::sleep_for(std::chrono::milliseconds{1})) gpus.check();
              }),
              "enough");
}

TEST_F(Collectives, AfterAFailureNothingUsesTheMemoryOfAMessage) {
  run([](Communicator& ranks, GpuCommunicator& gpus) {
    if (gpus.size() == 1) return;
    hear_enough(gpus, [&] {
      const auto data = gpus.allocate<float>(100'000);
      if (ranks.rank() != 0) return;
      const Pending sent = gpus.begin_send(GpuSpan<const float>{data.span()}, 1);
      gpus.abort("enough");
      fill(data.span(), 1);
      EXPECT_EQ(on_host<float>(data.span())[99'999], filled_with(1));
    });
  });
}

TEST_F(Collectives, AfterAFailureNothingUsesTheMemoryOfAnOperation) {
  run([](Communicator& ranks, GpuCommunicator& gpus) {
    if (gpus.size() == 1) return;
    hear_enough(gpus, [&] {
      const auto data = gpus.allocate<float>(100'000);
      gpus.all_reduce(data.span());
      if (ranks.rank() != 0) return;
      const Pending alone = gpus.begin_all_reduce(data.span());
      gpus.abort("enough");
      fill(data.span(), 1);
      EXPECT_EQ(on_host<float>(data.span())[99'999], filled_with(1));
    });
  });
}

TEST_F(Collectives, DisagreementsAndGivingUpAreToldAsOnTheHost) {
  run([](Communicator& ranks, GpuCommunicator& gpus) {
    const auto data = gpus.allocate<float>(100);
    if (gpus.size() == 1) {
      gpus.abort("enough");
      EXPECT_SAYS(message_of<Cancelled>([&] { gpus.all_reduce(data.span()); }), "enough");
      return;
    }
    to_gpu(all_given(ranks.rank(), 100), data.span());
    const std::string text =
        message_of<InvalidArgument>([&] { gpus.all_reduce(data.span().first(ranks.rank() == 0 ? 99 : 100)); });
    EXPECT_SAYS(text, "rank 0 called all_reduce(sum of 99 f32)");
    if (ranks.rank() != 0) return;
    EXPECT_EQ(on_host<float>(data.span())[99], given(0, 99)) << "it was not passed";
  });
}

TEST_F(Collectives, ARankThatDiesIsNamedToTheOthers) {
  if (std::getenv("WORLD_SIZE") == nullptr) GTEST_SKIP() << "the ranks are threads of one process, and cannot die";
  run([](Communicator& ranks, GpuCommunicator& gpus) {
    if (gpus.size() == 1) return;
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
