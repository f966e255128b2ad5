// Memory that a step frees is reused by the next step, without page faults.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include <pharos/ml/ddp.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/sharded.hpp>

#include "rank_threads.hpp"

namespace pharos::ml {
namespace {

constexpr int kLayers = 4;
constexpr std::int64_t kWidth = 512;  // a gradient of 256 pages

long faults_of_this_thread() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

torch::nn::Sequential layers() {
  torch::nn::Sequential module;
  for (int i = 0; i < kLayers; ++i) module->push_back(torch::nn::Linear(kWidth, kWidth));
  return module;
}

/// The page faults of one step: the fewest of five steps.
long faults_of_a_step(const std::function<void()>& step) {
  std::vector<long> faults;
  for (int i = 0; i < 8; ++i) {
    const long before = faults_of_this_thread();
    step();
    if (i >= 3) faults.push_back(faults_of_this_thread() - before);
  }
  return *std::min_element(faults.begin(), faults.end());
}

TEST(HeapTest, StepsDoNotFaultInAgainWhatTheOneBeforeHasFreed) {
  torch::set_num_threads(1);
  run_threads(2, {.timeout = std::chrono::seconds{20}}, [](Communicator& ranks) {
    auto module = layers();
    const Ddp ddp{ranks, *module};
    const auto x = torch::randn({64, kWidth});
    const long faults = faults_of_a_step([&] {
      for (auto& each : module->parameters()) each.mutable_grad().reset();
      module->forward(x).sum().backward();
    });
    EXPECT_LT(faults, 16) << "pages";
  });
}

/// Parameters are gathered, updated and released, and so are gradients. All of them reuse memory that is mapped
/// already.
TEST(HeapTest, ShardedStepsDoNotFaultAnythingIn) {
  torch::set_num_threads(1);
  for (const Sharding sharding : {Sharding::kParameters, Sharding::kGradients, Sharding::kOptimizer}) {
    run_threads(2, {.timeout = std::chrono::seconds{20}}, [&](Communicator& ranks) {
      auto module = layers();
      Sharded sharded{*module, ranks, sharding, {}};
      Optimizer optimizer{sharded.groups(0.1), AdamW{}};
      const auto x = torch::randn({64, kWidth});
      const long faults = faults_of_a_step([&] {
        optimizer.zero_grad();
        module->forward(x).sum().backward();
        optimizer.step();
      });
      EXPECT_LT(faults, 16) << "pages";
    });
  }
}

}  // namespace
}  // namespace pharos::ml
