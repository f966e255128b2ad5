// On a machine with a GPU: what it computes, with as many ranks as there are GPUs. Without one: what it says.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/nccl.hpp>

#include "rank_threads.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

std::uint32_t gpus() {
  int count = 0;
  return ::cudaGetDeviceCount(&count) == cudaSuccess ? static_cast<std::uint32_t>(count) : 0;
}

/// Ranks that are threads, each with a GPU. Without one: each hears that there is none, and it goes on without.
void on_gpus(const std::function<void(Communicator& ranks, Communicator& gpus)>& body) {
  const std::uint32_t count = gpus();
  run_threads(std::max(count, 1U), {.timeout = std::chrono::seconds{20}}, [&](Communicator& ranks) {
    if (count == 0) {
      EXPECT_SAYS(message_of<FailedPrecondition>([&] { on_gpu(ranks, 0); }), "taking GPU 0");
      return;
    }
    Communicator on_device = on_gpu(ranks, static_cast<int>(ranks.rank()));
    body(ranks, on_device);
  });
}

template <class T>
std::vector<T> on_host(std::span<const T> data) {
  std::vector<T> copy(data.size());
  EXPECT_EQ(::cudaMemcpy(copy.data(), data.data(), data.size_bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
  return copy;
}
template <class T>
void to_gpu(const std::vector<T>& from, std::span<T> to) {
  EXPECT_EQ(::cudaMemcpy(to.data(), from.data(), to.size_bytes(), cudaMemcpyHostToDevice), cudaSuccess);
}
std::vector<float> given(std::uint32_t rank, std::size_t count) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<float>((i * 7 + rank * 3) % 5);
  return all;
}
float sum(std::uint32_t ranks, std::size_t place) {
  float result = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) result += given(rank, place + 1)[place];
  return result;
}

TEST(Nccl, ReducesGathersPassesOnAndExchanges) {
  on_gpus([](Communicator& ranks, Communicator& gpus) {
    const std::uint32_t world = gpus.size();
    for (const std::size_t n : {1UL, 1000UL, 100'000UL}) {
      const auto data = gpus.allocate<float>(n * world);
      for (const float each : on_host<float>(data.span())) ASSERT_EQ(each, 0);
      to_gpu(given(ranks.rank(), n * world), data.span());
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

TEST(Nccl, SeveralAreUnderWayAtOnceAndMessagesBesideThem) {
  on_gpus([](Communicator& ranks, Communicator& gpus) {
    const auto data = gpus.allocate<float>(10'000);
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < 10; ++i) {
      const auto part = data.span().subspan(i * 1000, 1000);
      to_gpu(std::vector<float>(1000, static_cast<float>(i)), part);
      pending.push_back(gpus.begin_all_reduce(part, Reduction::kMean));
    }
    if (gpus.size() > 1 && ranks.rank() == 0) gpus.send(std::span<const float>{data.span().first(1)}, 1);
    if (gpus.size() > 1 && ranks.rank() == 1) gpus.receive(data.span().first(1), 0);
    for (Pending& each : pending) each.wait();
    const auto means = on_host<float>(data.span());
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(means[i * 1000 + 999], static_cast<float>(i));
  });
}

TEST(Nccl, DisagreementsAndGivingUpAreToldAsOnTheHost) {
  on_gpus([](Communicator& ranks, Communicator& gpus) {
    const auto data = gpus.allocate<float>(100);
    if (gpus.size() == 1) {
      gpus.abort("enough");
      EXPECT_SAYS(message_of<Cancelled>([&] { gpus.all_reduce(data.span()); }), "enough");
      return;
    }
    const std::string text =
        message_of<InvalidArgument>([&] { gpus.all_reduce(data.span().first(ranks.rank() == 0 ? 99 : 100)); });
    EXPECT_SAYS(text, "rank 0 is at all_reduce(sum of 99 f32)");
  });
}

}  // namespace
}  // namespace pharos::ml
