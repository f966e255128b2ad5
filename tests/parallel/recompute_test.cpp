// A part that is recomputed in backward gives the same results as in forward.

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include <pharos/ml/precision.hpp>
#include <pharos/ml/recompute.hpp>

namespace pharos::ml {
namespace {

using torch::Tensor;

TEST(Recompute, RunsAgainInThePrecisionOfItsForward) {
  torch::manual_seed(3);
  torch::nn::Linear first{16, 16};
  torch::nn::Linear second{16, 16};
  const Tensor x = torch::randn({4, 16});
  std::vector<torch::Dtype> types;
  const auto part = [&](const Tensor& in) {
    const Tensor out = torch::gelu(second(in));
    types.push_back(out.scalar_type());
    return out;
  };
  const auto gradient = [&](bool recomputes) {
    first->zero_grad();
    Tensor loss;
    {
      const Autocast autocast{at::kCPU, Precision::kBf16};
      const Tensor in = first(x);  // bfloat16: without autocast the product with the second layer's floats would fail
      loss = (recomputes ? checkpoint(part, in) : part(in)).to(torch::kFloat).pow(2).sum();
    }
    loss.backward();
    return first->weight.grad().clone();
  };
  const Tensor kept = gradient(false);
  EXPECT_TRUE(torch::equal(kept, gradient(true)));
  EXPECT_EQ(types, std::vector<torch::Dtype>(3, torch::kBFloat16));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

}  // namespace
}  // namespace pharos::ml
