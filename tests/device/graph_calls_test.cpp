// What recorded work costs the host, on a simulated device.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>

#include <pharos/ml/device.hpp>
#include <pharos/ml/graph.hpp>

#include "queues.hpp"

namespace pharos::ml {
namespace {

TEST(GraphCalls, ARunIsOneCallOfTheDeviceAndTheHostDoesNotWait) {
  const at::Device device = gpu(0);
  torch::nn::Linear layer{8, 8};
  layer->to(device);
  const torch::Tensor x = torch::ones({4, 8}, device);
  const auto learn = [&] {
    layer->zero_grad();
    layer(x).relu().sum().backward();
  };
  Graph graph{device, learn};
  const auto calls_of = [](const auto& work) {
    const std::uint64_t calls = simulated::activity().calls;
    work();
    return simulated::activity().calls - calls;
  };
  const std::uint64_t waits = simulated::activity().host_waits;
  EXPECT_GT(calls_of(learn), 10U);
  EXPECT_EQ(calls_of([&] { graph.run(); }), 1U);
  EXPECT_EQ(simulated::activity().host_waits, waits);
}

}  // namespace
}  // namespace pharos::ml
