// What a step frees is there for the next one.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include <pharos/ml/ddp.hpp>

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

/// Steps with the fewest faults of five.
long faults_of_a_step(Communicator& ranks) {
  torch::nn::Sequential module;
  for (int i = 0; i < kLayers; ++i) module->push_back(torch::nn::Linear(kWidth, kWidth));
  Ddp ddp{ranks, *module};
  const auto x = torch::randn({64, kWidth});
  std::vector<long> faults;
  for (int step = 0; step < 8; ++step) {
    const long before = faults_of_this_thread();
    for (auto& each : module->parameters()) each.mutable_grad().reset();
    module->forward(x).sum().backward();
    if (step >= 3) faults.push_back(faults_of_this_thread() - before);
  }
  return *std::min_element(faults.begin(), faults.end());
}

TEST(HeapTest, StepsDoNotFaultInAgainWhatTheOneBeforeHasFreed) {
  torch::set_num_threads(1);
  run_threads(2, {.timeout = std::chrono::seconds{20}},
              [](Communicator& ranks) { EXPECT_LT(faults_of_a_step(ranks), 16) << "pages"; });
}

}  // namespace
}  // namespace pharos::ml
