// Work that is recorded once and given to a GPU again and again. tests/device runs these tests on simulated GPUs.

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/device.hpp>
#include <pharos/ml/graph.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/precision.hpp>
#include <pharos/ml/random_state.hpp>

#include "gpu_test.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

using torch::Tensor;

class Graphs : public GpuTest {};

constexpr std::int64_t kBatch = 8;
constexpr std::int64_t kIn = 7;
constexpr int kSteps = 6;

Tensor floats(std::uint64_t seed, const std::vector<std::int64_t>& sizes) {
  return random_numbers(seed, sizes, torch::kFloat);
}

/// A training with dropout, step by step, on a batch of its own in each step.
class Training {
 public:
  explicit Training(at::Device device) : device_{device} {
    torch::manual_seed(5);
    net_ = torch::nn::Sequential{torch::nn::Linear(kIn, 32), torch::nn::ReLU(), torch::nn::Dropout(0.5),
                                 torch::nn::Linear(32, 1)};
    net_->to(device);
    optimizer_.emplace(groups_of(*net_, 0.1), AdamW{.lr = 1e-2});
    x_ = torch::zeros({kBatch, kIn}, device);
    y_ = torch::zeros({kBatch, 1}, device);
  }

  /// Forward and backward of what lies in the batch.
  void learn() {
    optimizer_->zero_grad();
    {
      const Autocast autocast{device_, Precision::kBf16};
      loss_ = (net_->forward(x_) - y_).pow(2).mean();
    }
    loss_.backward();
  }

  /// Returns the losses and then the parameters, on the host.
  template <class Learn>
  std::vector<Tensor> run(const Learn& learn) {
    seed_generators(17);
    std::vector<Tensor> all;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      x_.copy_(floats(2 * step, {kBatch, kIn}));
      y_.copy_(floats(2 * step + 1, {kBatch, 1}));
      learn();
      optimizer_->step();
      all.push_back(loss_.detach().cpu());
    }
    for (const Tensor& each : net_->parameters()) all.push_back(each.detach().cpu());
    return all;
  }

 private:
  const at::Device device_;
  torch::nn::Sequential net_{nullptr};
  std::optional<Optimizer> optimizer_;
  Tensor x_;
  Tensor y_;
  Tensor loss_;
};

TEST_F(Graphs, LearnWhatTheFunctionLearns) {
  Training plain{gpu_};
  const auto expected = plain.run([&] { plain.learn(); });
  Training recorded{gpu_};
  Graph step{gpu_, [&] { recorded.learn(); }};
  const auto got = recorded.run([&] { step.run(); });
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(torch::equal(got[i], expected[i])) << i;
  EXPECT_FALSE(torch::equal(got[0], got[1])) << "each step has another batch";
}

TEST_F(Graphs, DrawNewNumbersEachTime) {
  Tensor drawn;
  Graph graph{gpu_, [&] { drawn = torch::rand({100}, gpu_); }};
  seed_generators(3);
  std::vector<Tensor> got;
  for (int i = 0; i < 3; ++i) {
    graph.run();
    got.push_back(drawn.cpu());
  }
  got.push_back(torch::rand({100}, gpu_).cpu());
  seed_generators(3);
  for (const Tensor& each : got) EXPECT_TRUE(torch::equal(each, torch::rand({100}, gpu_).cpu()));
}

TEST_F(Graphs, KeepTheirMemoryToThemselves) {
  const Tensor in = floats(1, {1000}).to(gpu_);
  std::optional<Tensor> out;
  Graph graph{gpu_, [&] {
                const Tensor between = in * 2;  // its memory is free again once the work is recorded
                out = between + 1;
              }};
  for (int i = 0; i < 3; ++i) {
    std::vector<Tensor> others;
    for (int k = 0; k < 20; ++k) others.push_back(torch::full({1000}, k, torch::TensorOptions{}.device(gpu_)));
    graph.run();
    for (int k = 0; k < 20; ++k) EXPECT_TRUE(torch::equal(others[k].cpu(), torch::full({1000}, float(k)))) << k;
    EXPECT_TRUE(torch::equal(out->cpu(), in.cpu() * 2 + 1));
  }
  out.reset();  // the graph still writes there
  const Tensor other = torch::ones({1000}, torch::TensorOptions{}.device(gpu_));
  graph.run();
  EXPECT_TRUE(torch::equal(other.cpu(), torch::ones({1000})));
}

TEST_F(Graphs, WorkThatWaitsForTheGpuIsRefused) {
  const Tensor in = torch::ones({10}, torch::TensorOptions{}.device(gpu_));
  const auto waits = [&] { return in.sum().item<float>(); };
  EXPECT_SAYS(message_of<FailedPrecondition>([&] { Graph{gpu_, [&] { waits(); }}; }), "cannot be recorded");
  EXPECT_EQ(waits(), 10);
  Tensor sum;
  Graph graph{gpu_, [&] { sum = in.sum(); }};
  graph.run();
  EXPECT_EQ(sum.item<float>(), 10);
}

}  // namespace
}  // namespace pharos::ml
