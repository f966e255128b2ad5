// A rank on a GPU is killed or stopped at each failpoint of ml/nccl. Each rank is a process with a simulated GPU.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>

#include <pharos/base/failpoint.hpp>
#include <pharos/ml/nccl.hpp>
#include <pharos/ml/nccl/failpoints.hpp>

#include "ranks.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using Action = FailpointOrder::Action;

constexpr std::uint32_t kVictim = 1;
constexpr std::uint32_t kRanks = 2;
constexpr Duration kLong = 20s;
constexpr Duration kShort = 500ms;
constexpr Duration kToldIn = 3s;  // after the death, or after the deadline
constexpr int kRounds = 50;

/// Runs operations of several kinds, also two at once and messages in both directions.
void work(GpuCommunicator& gpus) {
  const auto data = gpus.allocate<float>(10'000);
  const auto piece = gpus.allocate<float>(5'000);
  const auto message = gpus.allocate<float>(100);
  for (int round = 0; round < kRounds; ++round) {
    Pending first = gpus.begin_all_reduce(data.span());
    gpus.reduce_scatter(GpuSpan<const float>{data.span()}, piece.span());
    first.wait();
    if (gpus.rank() == kVictim) {
      gpus.send(GpuSpan<const float>{message.span()}, 0);
      gpus.receive(message.span(), 0);
    } else {
      gpus.receive(message.span(), kVictim);
      gpus.send(GpuSpan<const float>{message.span()}, kVictim);
    }
    gpus.barrier();
  }
}

/// Reads the results of operations without waiting for their ends: the host waits in CUDA's functions.
void read_on_the_way(GpuCommunicator& gpus) {
  const auto data = gpus.allocate<float>(10'000);
  for (int round = 0; round < kRounds; ++round) {
    gpus.begin_all_reduce(data.span(), Reduction::kMax).join();
    float first = 0;
    EXPECT_EQ(::cudaMemcpy(&first, data.data(), sizeof first, cudaMemcpyDeviceToHost), cudaSuccess);
  }
  gpus.barrier();
}

std::string error_of_rank(std::uint32_t rank, const Join& join, const CommunicatorOptions& options,
                          void (*body)(GpuCommunicator&)) {
  try {
    auto backend = join(rank);
    if (!backend) throw_error(backend.error());
    Communicator ranks{std::make_shared<detail::Core>(*std::move(backend), options)};
    GpuCommunicator gpus = on_gpu(ranks, 0, options);
    body(gpus);
    return "nothing";
  } catch (const std::exception& e) {
    return e.what();
  }
}

class GpuFailures : public testing::TestWithParam<GpuPath> {};

/// Runs the ranks, and returns when all have ended. `says`: what the error of the other rank must say.
void end_one(Action action, const Failpoint& at, std::uint32_t passes, const std::string& says,
             void (*body)(GpuCommunicator&) = &work) {
  SCOPED_TRACE(std::string{at.name()} + " after " + std::to_string(passes));
  const bool stops = action == Action::kStop;
  const Join join = join_memory(kRanks, kLong);
  const LifeSign life;
  const auto rank = [&](std::uint32_t number) {
    if (number == kVictim) {
      order_failpoint({at, action, passes});
      life.keep_giving();
    }
    const CommunicatorOptions options{.timeout = stops ? kShort : kLong, .gpu_path = GpuFailures::GetParam()};
    const std::string text = error_of_rank(number, join, options, body);
    const Duration since = life.since();
    if (number == kVictim) {
      EXPECT_TRUE(stops) << "it did not come there: " << text;
      return;
    }
    EXPECT_SAYS(text, says);
    EXPECT_LT(since, stops ? kShort + kToldIn : kToldIn);
  };
  if (!testing::Test::HasFailure()) run_children(kRanks, rank, {kVictim});  // children inherit a failure
}

TEST_P(GpuFailures, ADeathEndsTheOtherRank) {
  for (const Failpoint& at : {failpoints::kGpuOperationBegun, failpoints::kGpuOperationGiven,
                              failpoints::kGpuMessageCopied, failpoints::kGpuMessageCame}) {
    for (const std::uint32_t passes : {0U, 5U}) end_one(Action::kKill, at, passes, "rank 1 has died");
  }
  end_one(Action::kKill, failpoints::kGpuGroupBegun, 0, "rank 1 has died");
  if (GetParam() != GpuPath::kPeers) return;
  for (const std::uint32_t passes : {0U, 2U})
    end_one(Action::kKill, failpoints::kGpuMemoryShared, passes, "rank 1 has died");
}

/// The other rank goes on to the next operation, and there it sees who does not come.
TEST_P(GpuFailures, RanksThatAreStoppedAreNotAwaitedForLong) {
  if (GetParam() == GpuPath::kPeers) {
    end_one(Action::kStop, failpoints::kGpuGroupBegun, 0, "waits for rank 1");
    end_one(Action::kStop, failpoints::kGpuMemoryShared, 1, "waits for rank 1");
  } else {
    end_one(Action::kStop, failpoints::kGpuGroupBegun, 0, "NCCL did not finish in time");
  }
  constexpr std::uint32_t kAllReduce = 9;  // the memory of three buffers, and two rounds of three operations
  end_one(Action::kStop, failpoints::kGpuOperationBegun, kAllReduce, "waits for rank 1");
  end_one(Action::kStop, failpoints::kGpuOperationGiven, kAllReduce, "waits for rank 1");
  end_one(Action::kStop, failpoints::kGpuMessageCopied, 5, "rank 1");
  end_one(Action::kStop, failpoints::kGpuMessageCame, 5, "rank 1");
}

TEST_P(GpuFailures, ADeathEndsTheWaitOfTheHostInAFunctionOfCuda) {
  for (const std::uint32_t passes : {1U, 7U}) {
    end_one(Action::kKill, failpoints::kGpuOperationBegun, passes, "rank 1 has died", &read_on_the_way);
  }
  end_one(Action::kStop, failpoints::kGpuOperationBegun, 7, "did not end on the GPU", &read_on_the_way);
}

/// The host of rank 0 waits for an operation that will not end, and learns why from the other rank.
TEST_P(GpuFailures, JoinedOperationsThatDifferAreTold) {
  const Join join = join_memory(kRanks, kLong);
  run_children(kRanks, [&](std::uint32_t number) {
    const auto differ = [](GpuCommunicator& gpus) {
      const auto data = gpus.allocate<float>(100);
      if (gpus.rank() != 0) return gpus.barrier();
      gpus.begin_all_reduce(data.span()).join();
      float first = 0;
      EXPECT_EQ(::cudaMemcpy(&first, data.data(), sizeof first, cudaMemcpyDeviceToHost), cudaSuccess);
      gpus.barrier();
    };
    const CommunicatorOptions options{.timeout = kLong, .gpu_path = GetParam()};
    EXPECT_SAYS(error_of_rank(number, join, options, differ), "rank 0 called all_reduce(sum of 100 f32)");
  });
}

INSTANTIATE_TEST_SUITE_P(OnEachPath, GpuFailures, testing::Values(GpuPath::kNccl, GpuPath::kPeers),
                         [](const testing::TestParamInfo<GpuPath>& path) {
                           return path.param == GpuPath::kNccl ? std::string{"Nccl"} : std::string{"Peers"};
                         });

}  // namespace
}  // namespace pharos::ml
