#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <pharos/ml/module_state.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/readers.hpp>
#include <pharos/ml/resnet.hpp>

#include "temporary_folder.hpp"

// resnet_losses.json has the losses of PyTorch. make_resnet_losses.py has written it, and describes how.

namespace pharos::ml {
namespace {

using Json = nlohmann::json;
using torch::Tensor;
using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kPrime = 2'147'483'647;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kBatch = 6;
constexpr std::int64_t kBatches = 4;

/// Relative tolerance of losses. PyTorch's kernels for other processors, or for another number of threads, round
/// differently. The losses of the first steps then differ by 1e-15, and each step multiplies the difference, until the
/// batches are learned. After that it stays below 2e-11.
constexpr double kTolerance = 1e-9;

Json recorded(const std::string& network) {
  return Json::parse(std::ifstream{PHAROS_MODEL_FILES "/resnet_losses.json"})[network];
}

/// Values from -0.5 to 0.5, which differ for each number.
Tensor values(const Shape& shape, std::int64_t number) {
  Tensor x = (torch::arange(c10::multiply_integers(shape), torch::kLong) * 48271 + number * 69621).remainder(kPrime);
  for (int round = 0; round < 3; ++round) x = (x * x + 1).remainder(kPrime);
  return (x.to(torch::kDouble) / static_cast<double>(kPrime) - 0.5).reshape(shape);
}

void set_parameters(torch::nn::Module& model) {
  const torch::NoGradGuard no_grad;
  std::int64_t number = 0;
  for (auto& each : model.named_parameters()) {
    Tensor& parameter = each.value();
    const Tensor x = values(parameter.sizes().vec(), number++);
    if (parameter.dim() > 1) {
      parameter.copy_(
          x * std::sqrt(24.0 * static_cast<double>(parameter.size(0)) / static_cast<double>(parameter.numel())));
    } else {
      parameter.copy_(each.key().ends_with("bias") ? x / 5 : 1 + x / 5);
    }
  }
}

struct Learned {
  std::vector<double> losses{};
  /// Outputs for the first images in evaluation, with the running means of the training.
  Tensor evaluated{};
};

Learned learned(bool small_images, std::size_t steps) {
  torch::set_num_threads(1);
  ResNet18 model{ResNet18Options{.channels = 1, .classes = kClasses, .small_images = small_images}};
  model->to(torch::kDouble);
  set_parameters(*model);
  Optimizer optimizer{{{.parameters = model->parameters(), .weight_decay = 5e-4}}, Sgd{.lr = 0.002, .momentum = 0.9}};
  Learned found;
  for (std::size_t step = 0; step < steps; ++step) {
    const std::int64_t batch = static_cast<std::int64_t>(step) % kBatches;
    const Tensor images = values({kBatch, 1, 28, 28}, 1000 + batch);
    const Tensor labels = (torch::arange(kBatch, torch::kLong) + 3 * batch).remainder(kClasses);
    optimizer.zero_grad();
    const Tensor loss = torch::cross_entropy_loss(model(images), labels);
    loss.backward();
    optimizer.step();
    found.losses.push_back(loss.item<double>());
  }
  const torch::NoGradGuard no_grad;
  model->eval();
  found.evaluated = model(values({kBatch, 1, 28, 28}, 1000));
  return found;
}

void expect_learns_as_recorded(const std::string& network, bool small_images) {
  const Json all = recorded(network);
  const auto wanted = all["losses"].get<std::vector<double>>();
  const Learned found = learned(small_images, wanted.size());
  const Tensor evaluated =
      torch::tensor(all["evaluated"].get<std::vector<double>>(), torch::kDouble).reshape({kBatch, kClasses});
  EXPECT_LT((found.evaluated - evaluated).abs().max().item<double>(), kTolerance);
  double furthest = 0;
  for (std::size_t step = 0; step < wanted.size(); ++step) {
    const double apart = std::abs(found.losses[step] / wanted[step] - 1);
    EXPECT_LT(apart, kTolerance) << "step " << step << ": " << found.losses[step] << ", not " << wanted[step];
    furthest = std::max(furthest, apart);
  }
  std::printf("%zu losses, at most %.1e apart\n", wanted.size(), furthest);
}

TEST(ResNetTest, LearnsAsWithPyTorch) {
  ASSERT_EQ(recorded("standard")["losses"].size(), 50U);
  expect_learns_as_recorded("standard", false);
}
TEST(ResNetTest, LearnsSmallImagesAsWithPyTorch) {
  expect_learns_as_recorded("small_images", true);
}

using NamedShapes = std::vector<std::pair<std::string, Shape>>;

TEST(ResNetTest, HasTorchvisionsNamesAndShapes) {
  for (const bool small_images : {false, true}) {
    const ResNet18 model{ResNet18Options{.small_images = small_images}};
    NamedShapes found;
    for (const NamedArray& each : arrays_of(*model)) found.emplace_back(each.name, each.array.shape());
    auto wanted = recorded(small_images ? "small_images" : "standard")["tensors"].get<NamedShapes>();
    std::ranges::sort(found);
    std::ranges::sort(wanted);
    EXPECT_EQ(found, wanted);
  }
}

TEST(ResNetTest, BeginsWithTorchvisionsNumbersForASeed) {
  for (const bool small_images : {false, true}) {
    torch::manual_seed(1);
    const ResNet18 model{ResNet18Options{.small_images = small_images}};
    const Json wanted = recorded(small_images ? "small_images" : "standard")["first_numbers"];
    ASSERT_EQ(model->named_parameters().size(), wanted.size());
    for (const auto& each : model->named_parameters()) {
      const Tensor numbers = each.value().detach().flatten();
      const auto ends = wanted.at(each.key()).get<std::pair<float, float>>();
      // Kernels for other processors round logarithms differently.
      EXPECT_NEAR(numbers[0].item<float>(), ends.first, 1e-6) << each.key();
      EXPECT_NEAR(numbers[-1].item<float>(), ends.second, 1e-6) << each.key();
    }
  }
}

TEST(ResNetTest, WhatOneHasLearnedAnotherOneLoads) {
  const torch::NoGradGuard no_grad;
  ResNet18 one{ResNet18Options{.channels = 1, .classes = kClasses}};
  ResNet18 other{ResNet18Options{.channels = 1, .classes = kClasses}};
  const Tensor images = torch::rand({2, 1, 40, 30});
  one(images);  // changes the running means
  const TemporaryFolder folder;
  write_safetensors(folder.path() / "one.safetensors", arrays_of(*one));
  load_arrays(*other, SafeTensors::read(folder.path() / "one.safetensors").tensors());
  one->eval();
  other->eval();
  EXPECT_EQ(one(images).sizes(), (Shape{2, kClasses}));
  EXPECT_TRUE(torch::equal(one(images), other(images)));
}

}  // namespace
}  // namespace pharos::ml
