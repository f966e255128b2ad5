// What ml/models computes with kernels of its own is what libtorch computes on the CPU. tests/device runs these tests
// on simulated GPUs.

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/ml/layer_norm.hpp>
#include <pharos/ml/linear.hpp>
#include <pharos/ml/linear_cross_entropy.hpp>

#include "gpu_test.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

using torch::Tensor;

class GpuKernels : public GpuTest {};

/// How far results may be from those of doubles, as a part of the largest one.
const std::vector<std::pair<torch::Dtype, double>> kExactness{
    {torch::kDouble, 1e-9}, {torch::kFloat, 1e-5}, {torch::kHalf, 4e-3}, {torch::kBFloat16, 3e-2}};

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

/// The results of a function, and the gradients of its inputs: those of the sum of all results times random numbers.
std::vector<Tensor> results_and_gradients(at::Device device, torch::Dtype computes, const std::vector<Tensor>& inputs,
                                          const Function& function) {
  std::vector<Tensor> leaves;
  for (const Tensor& each : inputs) leaves.push_back(each.detach().clone().to(computes).to(device).requires_grad_());
  std::vector<Tensor> all = function(leaves);
  Tensor sum = torch::zeros({}, torch::TensorOptions{}.dtype(computes).device(device));
  std::uint64_t seed = 100;
  for (const Tensor& each : all)
    sum = sum + (each * random_numbers(++seed, each.sizes().vec()).to(computes).to(device)).sum();
  sum.backward();
  for (const Tensor& each : leaves) all.push_back(each.grad());
  for (Tensor& each : all) each = each.detach().cpu().to(torch::kDouble);
  return all;
}

/// Compares a function on the GPU with one in doubles on the CPU, in all types of numbers.
void expect_same(at::Device gpu, const std::vector<Tensor>& inputs, const Function& on_gpu, const Function& expected) {
  for (const auto& [dtype, exact] : kExactness) {
    std::vector<Tensor> rounded;
    for (const Tensor& each : inputs) rounded.push_back(each.to(dtype));
    const auto should = results_and_gradients(at::kCPU, torch::kDouble, rounded, expected);
    const auto got = results_and_gradients(gpu, dtype, rounded, on_gpu);
    ASSERT_EQ(got.size(), should.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].sizes(), should[i].sizes()) << dtype << ", tensor " << i;
      const double most = should[i].abs().max().item<double>();
      EXPECT_LE(largest_difference(got[i], should[i]), exact * most) << dtype << ", tensor " << i;
    }
  }
}

// Columns for one warp a row, with all and with some of its lanes at work; for several warps; and what no kernel takes.
constexpr std::int64_t kColumns[] = {8, 24, 256, 264, 768, 1024, 1032, 4160, 17, 16392};

TEST_F(GpuKernels, ASumIsNormalizedAsByLibtorch) {
  for (const std::int64_t columns : kColumns) {
    SCOPED_TRACE(std::to_string(columns) + " columns");
    const std::int64_t rows = columns > 1000 ? 3 : 37;
    const std::vector<Tensor> inputs{random_numbers(1, {rows, columns}) + 2, random_numbers(2, {rows, columns}),
                                     random_numbers(3, {columns}), random_numbers(4, {columns})};
    expect_same(
        gpu_, inputs,
        [](const auto& in) {
          const auto [sum, norm] = add_layer_norm(in[0], in[1], in[2], in[3]);
          return std::vector{sum, norm};
        },
        [](const auto& in) {
          const Tensor sum = in[0] + in[1];
          return std::vector{sum, torch::layer_norm(sum, {sum.size(-1)}, in[2], in[3])};
        });
  }
}

TEST_F(GpuKernels, RowsAreNormalizedAsByLibtorch) {
  const std::vector<Tensor> inputs{random_numbers(1, {2, 5, 48}) * 3, random_numbers(3, {48}), random_numbers(4, {48})};
  const auto by_libtorch = [](const auto& in) {
    return std::vector{torch::layer_norm(in[0], {48}, in[1], in[2], 0.1)};
  };
  expect_same(
      gpu_, inputs, [](const auto& in) { return std::vector{layer_norm(in[0], in[1], in[2], 0.1)}; }, by_libtorch);
  // The rows do not lie side by side.
  const std::vector<Tensor> lie_apart{random_numbers(1, {48, 5}), random_numbers(3, {48}), random_numbers(4, {48})};
  expect_same(
      gpu_, lie_apart, [](const auto& in) { return std::vector{layer_norm(in[0].t(), in[1], in[2], 0.1)}; },
      [&](const auto& in) {
        return by_libtorch(std::vector{in[0].t(), in[1], in[2]});
      });
}

TEST_F(GpuKernels, OfTheKernelsThereIsNoSecondDerivative) {
  const auto leaf = [&](std::uint64_t seed, const std::vector<std::int64_t>& sizes) {
    return random_numbers(seed, sizes).to(torch::kFloat).to(gpu_).requires_grad_();
  };
  const Tensor x = leaf(1, {4, 16});
  const Tensor weight = leaf(2, {16, 16});
  const Tensor bias = leaf(3, {16});
  for (const Tensor& each : {layer_norm(x, bias, bias), linear(x, weight, bias), linear_gelu(x, weight, bias)}) {
    EXPECT_SAYS(message_of<c10::Error>([&] { each.sum().backward({}, {}, /*create_graph=*/true); }),
                "has no second derivative");
  }
}

TEST_F(GpuKernels, OnlyOneOfSumAndNormIsUsed) {
  const std::vector<Tensor> inputs{random_numbers(1, {9, 64}), random_numbers(2, {9, 64}), random_numbers(3, {64}),
                                   random_numbers(4, {64})};
  const auto by_libtorch = [](const auto& in) {
    return std::vector{torch::layer_norm(in[0] + in[1], {64}, in[2], in[3])};
  };
  expect_same(
      gpu_, inputs, [](const auto& in) { return std::vector{add_layer_norm(in[0], in[1], in[2], in[3]).norm}; },
      by_libtorch);
  std::vector<Tensor> leaves;
  for (const Tensor& each : inputs) leaves.push_back(each.to(torch::kFloat).to(gpu_).requires_grad_());
  add_layer_norm(leaves[0], leaves[1], leaves[2], leaves[3]).sum.sum().backward();
  EXPECT_TRUE(torch::equal(leaves[0].grad().cpu(), torch::ones({9, 64})));
  EXPECT_TRUE(torch::equal(leaves[1].grad().cpu(), torch::ones({9, 64})));
}

TEST_F(GpuKernels, LinearLayersAreThoseOfLibtorch) {
  for (const std::int64_t outputs : {16, 40, 264, 3}) {
    SCOPED_TRACE(std::to_string(outputs) + " outputs");
    const std::vector<Tensor> inputs{random_numbers(1, {3, 29, 24}), random_numbers(2, {outputs, 24}) * 0.2,
                                     random_numbers(3, {outputs})};
    expect_same(
        gpu_, inputs, [](const auto& in) { return std::vector{linear(in[0], in[1], in[2])}; },
        [](const auto& in) { return std::vector{torch::linear(in[0], in[1], in[2])}; });
    expect_same(
        gpu_, inputs, [](const auto& in) { return std::vector{linear_gelu(in[0], in[1], in[2])}; },
        [](const auto& in) { return std::vector{torch::gelu(torch::linear(in[0], in[1], in[2]), "tanh")}; });
  }
}

TEST_F(GpuKernels, WhereOnlyTheBiasLearnsTheOthersGetNoGradient) {
  const auto on_gpu = [&](const Tensor& each) { return each.to(torch::kFloat).to(gpu_); };
  const Tensor x = on_gpu(random_numbers(1, {5, 8}));
  const Tensor weight = on_gpu(random_numbers(2, {16, 8}));
  const Tensor bias = on_gpu(random_numbers(3, {16})).requires_grad_();
  linear(x, weight, bias).sum().backward();
  EXPECT_TRUE(torch::equal(bias.grad().cpu(), torch::full({16}, 5.0F)));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
}

/// The loss of an output layer, and the gradients of its input and its weight, all on the CPU. Three targets do not
/// count.
template <class LossWith>
Tensor loss_and_gradients(at::Device device, torch::Dtype dtype, std::int64_t classes, const LossWith& loss_with) {
  const Tensor x = random_numbers(1, {40, 8}, torch::kFloat).to(dtype).to(device).requires_grad_();
  const Tensor weight = random_numbers(2, {classes, 8}, torch::kFloat).to(dtype).to(device).requires_grad_();
  Tensor targets = torch::arange(40).remainder(classes);
  targets.slice(0, 5, 8).fill_(-100);
  const Tensor loss = loss_with(x, weight, targets.to(device));
  loss.backward();
  return torch::cat({loss.detach().view(1), x.grad().flatten(), weight.grad().flatten()}).cpu().to(torch::kDouble);
}

TEST_F(GpuKernels, TheLossOfAnOutputLayerIsThatOfAllScores) {
  const std::vector<std::pair<torch::Dtype, double>> exactness{
      {torch::kDouble, 1e-9}, {torch::kFloat, 1e-5}, {torch::kHalf, 5e-3}, {torch::kBFloat16, 3e-2}};
  for (const auto& [dtype, exact] : exactness) {
    for (const std::int64_t classes : {21, 64, 4097}) {
      const bool is_half = dtype == torch::kHalf || dtype == torch::kBFloat16;
      const torch::Dtype of_cpu = is_half ? torch::kFloat : dtype;
      const Tensor expected =
          loss_and_gradients(at::kCPU, dtype, classes, [&](const auto& x, const auto& weight, const auto& y) {
            return torch::cross_entropy_loss(torch::linear(x.to(of_cpu), weight.to(of_cpu)), y);
          });
      const Tensor found =
          loss_and_gradients(gpu_, dtype, classes, [](const auto& x, const auto& weight, const auto& y) {
            return linear_cross_entropy(x, weight, y, {.rows_at_once = 7});
          });
      EXPECT_LE(largest_difference(expected, found), exact) << dtype << ", " << classes << " classes";
    }
  }
}

TEST_F(GpuKernels, ATargetThatIsNoClassMakesTheLossNan) {
  const Tensor x = torch::ones({2, 8}, torch::TensorOptions{}.device(gpu_));
  const Tensor weight = torch::ones({16, 8}, torch::TensorOptions{}.device(gpu_));
  for (const std::int64_t wrong : {16, -1}) {
    const Tensor targets = torch::tensor({std::int64_t{3}, wrong}).to(gpu_);
    EXPECT_TRUE(std::isnan(linear_cross_entropy(x, weight, targets).item<double>())) << wrong;
  }
}

}  // namespace
}  // namespace pharos::ml
