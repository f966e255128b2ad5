// The simulated devices themselves: what they compute, and what they notice.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/autocast_mode.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "devices.hpp"
#include "fallback.hpp"
#include "generators.hpp"

namespace pharos::simulated {
namespace {

using torch::Tensor;

const c10::impl::VirtualGuardImpl& guard() {
  static const c10::impl::VirtualGuardImpl of_device{kDeviceType};
  return of_device;
}

c10::Stream other_stream() {
  return guard().getStreamFromGlobalPool(kFirst, false);
}

Tensor full(double value, std::int64_t size = 256, at::Device device = kFirst) {
  return torch::full({size}, value, torch::TensorOptions{}.dtype(torch::kFloat).device(device));
}

/// The signal that ends a child process which runs this; 0 if it ends by itself.
template <class F>
int signal_of(F run) {
  const pid_t child = ::fork();
  if (child == 0) {
    run();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// ---- Memory

TEST(DeviceMemoryTest, AHostThatTouchesItCrashes) {
  const Tensor tensor = full(1);
  streams().synchronize();
  auto* const at = static_cast<volatile float*>(tensor.data_ptr());
  EXPECT_EQ(signal_of([&] { static_cast<void>(*at); }), SIGSEGV);
  EXPECT_EQ(signal_of([&] { *at = 2; }), SIGSEGV);
  EXPECT_EQ(signal_of([] {}), 0);
}

TEST(DeviceMemoryTest, NewMemoryIsNoNumberAndNorIsFreedMemory) {
  constexpr std::int64_t kOnlyHere = 123'457;
  for (int time = 0; time < 2; ++time) {
    const Tensor x = torch::empty({kOnlyHere}, kFirst);
    EXPECT_TRUE(x.cpu().isnan().all().item<bool>());
    x.fill_(1);
  }
}

TEST(DeviceMemoryTest, DevicesAreKeptApart) {
  const Tensor first = full(1, 3);
  const Tensor second = full(2, 3, kSecond);
  EXPECT_EQ(second.sum().item<float>(), 6);
  EXPECT_THROW(first + second, c10::Error);
  EXPECT_THROW(first + torch::ones({3}), c10::Error);
  EXPECT_THROW(torch::empty({1}, at::Device(kDeviceType, 2)), c10::Error);
  EXPECT_TRUE(second.to(kFirst).cpu().equal(torch::full({3}, 2.F)));
}

TEST(DeviceMemoryTest, WhatIsTooMuchThrowsAndWhatIsFreedCanBeUsedAgain) {
  const std::size_t before = memory().in_use();
  memory().set_capacity(before + (1 << 20));
  EXPECT_THROW(torch::empty({1 << 20}, kFirst), c10::OutOfMemoryError);
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(torch::empty({200'000}, kFirst));
  memory().set_capacity(SIZE_MAX);
  EXPECT_EQ(memory().in_use(), before);
}

// ---- Order

/// A stream computes x, another one copies it. Returns whether the copy is right.
bool hand_over(bool with_event) {
  const c10::Stream a = other_stream();
  const c10::Stream b = other_stream();
  Tensor x;
  c10::Event ready{kDeviceType};
  {
    const c10::StreamGuard on_a{a};
    x = full(2) * 3 + 1;
    ready.record(a);
  }
  Tensor y;
  {
    const c10::StreamGuard on_b{b};
    if (with_event) ready.block(b);
    y = x.clone();
    x.record_stream(b);
    y = y.cpu();
  }
  streams().synchronize();
  return y.equal(torch::full({256}, 7.F));
}

TEST(DeviceOrderTest, AMissingEventIsReportedInEachRun) {
  hand_over(false);
  EXPECT_GE(order().take_reports().size(), 1U);
  EXPECT_TRUE(hand_over(true));
}

TEST(DeviceOrderTest, WhatTheHostHasWaitedForComesBeforeWhatItQueuesThen) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    streams().set_delays(seed, std::chrono::microseconds{300});
    const Tensor x = full(1, 32);
    c10::Event written{kDeviceType};
    written.record(at::accelerator::getCurrentStream(0));
    written.synchronize();
    const c10::StreamGuard on_another{other_stream()};
    EXPECT_TRUE((x + 1).cpu().equal(torch::full({32}, 2.F)));
  }
}

/// Memory is freed on the stream that it belongs to while another stream has yet to read it.
bool free_early(bool with_record_stream) {
  const c10::Stream a = other_stream();
  const c10::Stream b = other_stream();
  const c10::StreamGuard on_a{a};
  Tensor x = full(7);
  c10::Event ready{kDeviceType};
  ready.record(a);
  ready.block(b);
  Tensor y;
  {
    const c10::StreamGuard on_b{b};
    y = x + 0;
  }
  if (with_record_stream) x.record_stream(b);
  x = Tensor{};
  const Tensor next = full(0);
  const c10::StreamGuard on_b{b};
  y = y.cpu();
  streams().synchronize();
  return y.equal(torch::full({256}, 7.F));
}

TEST(DeviceOrderTest, AMissingRecordStreamIsReportedInEachRun) {
  free_early(false);
  EXPECT_GE(order().take_reports().size(), 1U);
  EXPECT_TRUE(free_early(true));
}

TEST(DeviceOrderTest, WithDelaysAMissingEventAlsoGivesWrongNumbers) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    streams().set_delays(seed, std::chrono::microseconds{300});
    wrong += hand_over(false) ? 0 : 1;
  }
  EXPECT_GE(wrong, 1);
  EXPECT_GE(order().take_reports().size(), 60U);
}

/// The host changes pinned memory that a copy has yet to read.
bool change_pinned(bool with_wait) {
  const Tensor host = torch::full({64}, 1.F).pin_memory();
  const Tensor device = torch::empty({64}, kFirst);
  device.copy_(host, /*non_blocking=*/true);
  if (with_wait) at::accelerator::getCurrentStream(0).synchronize();
  host.fill_(2);
  return device.cpu().equal(torch::ones({64}));
}

TEST(DeviceOrderTest, ACopyReadsPinnedMemoryWhenItRuns) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    streams().set_delays(seed, std::chrono::microseconds{300});
    wrong += change_pinned(false) ? 0 : 1;
  }
  EXPECT_GE(wrong, 1);
  EXPECT_TRUE(change_pinned(true));
}

TEST(DeviceOrderTest, AutogradOrdersTheStreamsOfForwardAndBackward) {
  const c10::Stream side = other_stream();
  const Tensor weight = full(2, 32).requires_grad_();
  c10::Event ready{kDeviceType};
  c10::Event done{kDeviceType};
  ready.record(at::accelerator::getCurrentStream(0));
  ready.block(side);
  Tensor loss;
  {
    const c10::StreamGuard on_side{side};
    loss = (weight * weight * weight).sum();
    done.record(side);
  }
  weight.record_stream(side);
  done.block(at::accelerator::getCurrentStream(0));
  loss.backward();
  EXPECT_TRUE(weight.grad().cpu().equal(torch::full({32}, 12.F)));
}

TEST(DeviceOrderTest, AnErrorOfAKernelComesOutOfTheNextWait) {
  const Tensor beyond = torch::full({3}, 9, torch::TensorOptions{kFirst}.dtype(torch::kLong));
  const Tensor none = torch::embedding(torch::zeros({4, 2}, kFirst), beyond);
  EXPECT_THROW(streams().synchronize(), c10::Error);
  EXPECT_NO_THROW(streams().synchronize());
}

TEST(DeviceOrderTest, EventsTellWhetherAndWhenTheyCame) {
  const c10::Stream stream = at::accelerator::getCurrentStream(0);
  c10::Event begin{kDeviceType, c10::EventFlag::BACKEND_DEFAULT};
  c10::Event end{kDeviceType, c10::EventFlag::BACKEND_DEFAULT};
  std::mutex gate;
  std::unique_lock closed{gate};
  begin.record(stream);
  streams().queue(stream).push([&] { const std::lock_guard open{gate}; });
  end.record(stream);
  EXPECT_FALSE(end.query());
  EXPECT_FALSE(stream.query());
  closed.unlock();
  end.synchronize();
  EXPECT_TRUE(end.query());
  EXPECT_GT(begin.elapsedTime(end), 0);
}

// ---- Random numbers

TEST(DeviceGeneratorTest, ItsStateAloneDecidesWhatIsDrawn) {
  at::Generator generator = at::globalContext().defaultGenerator(kFirst);
  generator.set_current_seed(42);
  const Tensor ones = full(1, 1000);
  const auto mask = [&] { return torch::dropout(ones, 0.5, true).cpu(); };
  const Tensor saved = generator.get_state();
  at::Generator cpu = at::detail::getDefaultCPUGenerator();
  const Tensor saved_cpu = cpu.get_state();
  const Tensor first = mask();
  const Tensor second = mask();
  EXPECT_FALSE(first.equal(second));
  cpu.set_state(saved_cpu);
  EXPECT_FALSE(mask().equal(first));
  generator.set_state(saved);
  EXPECT_TRUE(mask().equal(first));
  EXPECT_TRUE(mask().equal(second));
  EXPECT_TRUE(cpu.get_state().equal(saved_cpu));
}

TEST(DeviceGeneratorTest, ManualSeedReachesIt) {
  torch::manual_seed(9);
  const Tensor drawn = torch::randn({8}, kFirst).cpu();
  torch::manual_seed(9);
  EXPECT_TRUE(torch::randn({8}, kFirst).cpu().equal(drawn));
}

// ---- Training

struct Net : torch::nn::Module {
  torch::nn::Linear first{20, 64};
  torch::nn::Linear second{64, 64};
  torch::nn::Linear third{64, 5};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({64})};

  Net() {
    register_module("first", first);
    register_module("second", second);
    register_module("third", third);
    register_module("norm", norm);
  }
  /// On the CPU the mask is drawn as the device draws it.
  static Tensor drop(const Tensor& x, std::uint64_t& offset) {
    if (!x.is_cpu()) return torch::dropout(x, 0.3, true);
    auto generator = at::detail::createCPUGenerator(seed_of_kernel(77, offset++));
    const Tensor mask = torch::empty_like(x, x.options().dtype(torch::kBool)).bernoulli_(0.7, generator);
    return x * mask * (1.0 / 0.7);
  }
  Tensor forward(Tensor x, std::uint64_t& offset) {
    x = drop(torch::gelu(first(x)), offset);
    x = drop(torch::relu(norm(second(x))), offset);
    return third(x);
  }
};

constexpr int kSteps = 10;

/// The losses of a training, and then all parameters.
std::vector<Tensor> train(at::Device device) {
  torch::manual_seed(5);
  Net net;
  std::vector<Tensor> inputs;
  std::vector<Tensor> labels;
  for (int i = 0; i < kSteps; ++i) {
    inputs.push_back(torch::randn({16, 20}));
    labels.push_back(torch::randint(5, {16}));
  }
  net.to(device);
  if (!device.is_cpu()) at::Generator{at::globalContext().defaultGenerator(device)}.set_current_seed(77);
  std::uint64_t offset = 0;
  torch::optim::AdamW optimizer{net.parameters(), torch::optim::AdamWOptions(1e-2).weight_decay(0.1)};
  std::vector<Tensor> results;
  for (int i = 0; i < kSteps; ++i) {
    optimizer.zero_grad();
    const auto at = static_cast<std::size_t>(i);
    const Tensor loss =
        torch::nn::functional::cross_entropy(net.forward(inputs[at].to(device), offset), labels[at].to(device));
    loss.backward();
    torch::nn::utils::clip_grad_norm_(net.parameters(), 1.0);
    optimizer.step();
    results.push_back(loss.detach());
  }
  for (const Tensor& each : net.parameters()) results.push_back(each.detach());
  for (Tensor& each : results) each = each.cpu();
  return results;
}

TEST(DeviceTrainingTest, IsThatOfTheCpu) {
  const auto on_cpu = train(torch::kCPU);
  const auto on_device = train(kFirst);
  ASSERT_EQ(on_device.size(), on_cpu.size());
  for (std::size_t i = 0; i < on_cpu.size(); ++i) {
    EXPECT_LT((on_cpu[i] - on_device[i]).abs().max().item<double>(), 1e-5) << "result " << i;
  }
  static const auto first = on_device;  // of the first order of the streams
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(on_device[i].equal(first[i])) << "result " << i;
}

// ---- Operators

/// Computes on the CPU and on the device, which must give the same, and so must the gradients of the input.
void expect_same(const std::vector<std::int64_t>& shape, const std::function<Tensor(const Tensor&)>& compute) {
  torch::manual_seed(3);
  const Tensor on_cpu = torch::randn(shape);
  const Tensor on_device = on_cpu.to(kFirst).requires_grad_();
  on_cpu.requires_grad_();
  const Tensor expected = compute(on_cpu);
  const Tensor found = compute(on_device);
  expected.square().sum().backward();
  found.square().sum().backward();
  EXPECT_TRUE(found.detach().cpu().allclose(expected.detach(), 1e-5, 1e-6));
  EXPECT_TRUE(on_device.grad().cpu().allclose(on_cpu.grad(), 1e-4, 1e-5));
}

TEST(DeviceOperatorsTest, Convolution) {
  expect_same({2, 3, 8, 8}, [](const Tensor& x) {
    return torch::conv2d(x, torch::ones({4, 3, 3, 3}, x.device()) * 0.1, torch::ones({4}, x.device()));
  });
}

TEST(DeviceOperatorsTest, Attention) {
  expect_same({2, 4, 6, 8}, [](const Tensor& x) { return at::scaled_dot_product_attention(x, x, x, {}, 0.0, true); });
}

TEST(DeviceOperatorsTest, BatchNorm) {
  expect_same({2, 3, 8, 8}, [](const Tensor& x) {
    torch::nn::BatchNorm2d norm{3};
    norm->to(x.device());
    return norm(x);
  });
}

TEST(DeviceOperatorsTest, LongShortTermMemory) {
  expect_same({5, 2, 8}, [](const Tensor& x) {
    torch::manual_seed(4);
    torch::nn::LSTM layer{8, 6};
    layer->to(x.device());
    return std::get<0>(layer(x));
  });
}

TEST(DeviceOperatorsTest, WhatDependsOnValuesWaits) {
  const Tensor values = torch::tensor({1.F, -1.F, 2.F}).to(kFirst);
  const std::uint64_t before = fallback_counts().synchronous;
  EXPECT_TRUE(values.masked_select(values > 0).cpu().equal(torch::tensor({1.F, 2.F})));
  EXPECT_TRUE(values.index({values > 0}).cpu().equal(torch::tensor({1.F, 2.F})));
  EXPECT_GT(fallback_counts().synchronous, before);
}

TEST(DeviceOperatorsTest, ViewsAndTheirMemory) {
  const Tensor base = torch::randn({3, 4}).to(kFirst);
  const Tensor rows = base.t().contiguous().index_select(0, torch::tensor({2, 0}).to(kFirst));
  EXPECT_EQ(rows.sizes(), (std::vector<std::int64_t>{2, 3}));
  base.narrow(0, 1, 1).fill_(5);
  EXPECT_TRUE(base.cpu()[1].equal(torch::full({4}, 5.F)));
  Tensor grown = torch::ones({2}, kFirst);
  grown.resize_({4});
  EXPECT_TRUE(grown.narrow(0, 0, 2).cpu().equal(torch::ones({2})));
}

TEST(DeviceOperatorsTest, SavedTensorsComeBack) {
  const Tensor values = torch::tensor({1.F, -1.F, 2.F}).to(kFirst);
  std::stringstream file;
  torch::save(values, file);
  Tensor back;
  torch::load(back, file);
  EXPECT_EQ(back.device(), kFirst);
  EXPECT_TRUE(back.cpu().equal(values.cpu()));
}

TEST(DeviceOperatorsTest, AutocastComputesInHalfPrecision) {
  torch::nn::Linear layer{8, 8};
  layer->to(kFirst);
  at::autocast::set_autocast_enabled(kDeviceType, true);
  at::autocast::set_autocast_dtype(kDeviceType, torch::kBFloat16);
  const Tensor result = layer(torch::ones({4, 8}, kFirst));
  at::autocast::set_autocast_enabled(kDeviceType, false);
  EXPECT_EQ(result.scalar_type(), torch::kBFloat16);
}

TEST(DeviceOperatorsTest, ListsOfTensors) {
  const std::vector<Tensor> all{full(1, 3), full(2, 3)};
  at::_foreach_add_(all, 1);
  EXPECT_TRUE(all[1].cpu().equal(torch::full({3}, 3.F)));
  const std::vector<Tensor> gradients{full(1, 3)};
  const std::vector<Tensor> parameters{full(1, 3)};
  const std::vector<Tensor> first{full(0, 3)};
  const std::vector<Tensor> second{full(0, 3)};
  const std::vector<Tensor> steps{torch::ones({}, kFirst)};
  at::_fused_adamw_(parameters, gradients, first, second, {}, steps, 0.1, 0.9, 0.99, 0.0, 1e-8, false, false);
  EXPECT_LT(parameters[0].cpu()[0].item<float>(), 1);
}

// ---- Accelerator

TEST(DeviceAcceleratorTest, ItIsTheProcesssAccelerator) {
  EXPECT_EQ(at::accelerator::getAccelerator(), kDeviceType);
  EXPECT_EQ(at::accelerator::deviceCount(), kDevices);
  at::accelerator::setDeviceIndex(1);
  EXPECT_EQ(torch::empty({1}, kDeviceType).device().index(), 1);
  at::accelerator::setDeviceIndex(0);
  const c10::Stream side = other_stream();
  const c10::Stream before = at::accelerator::getCurrentStream(0);
  at::accelerator::setCurrentStream(side);
  EXPECT_EQ(at::accelerator::getCurrentStream(0), side);
  at::accelerator::setCurrentStream(before);
}

}  // namespace
}  // namespace pharos::simulated
