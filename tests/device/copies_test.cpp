// The copies of batches that fit() begins ahead.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include <pharos/ml/device.hpp>

#include "devices.hpp"
#include "fit/device_copies.hpp"

namespace pharos::ml {
namespace {

constexpr std::int64_t kNumbers = 20'000;

/// A batch of one field, all of whose numbers are `value`. Whoever uses its memory next writes -1 there.
Batch batch_of(float value) {
  const std::size_t bytes = kNumbers * sizeof(float);
  const std::shared_ptr<std::byte> memory = DeviceCopies::take_pinned(bytes);
  const auto fill = [memory](float with) { std::fill_n(reinterpret_cast<float*>(memory.get()), kNumbers, with); };
  fill(value);
  const std::shared_ptr<std::byte> used{memory.get(), [fill](std::byte*) { fill(-1); }};
  const std::span<const std::byte> all{used.get(), bytes};
  return {.fields = {{"x", Array{DType::kF32, {kNumbers}, Bytes{used, all}}}}, .samples = 1};
}

TEST(DeviceCopiesTest, ABatchIsKeptUntilItWasRead) {
  simulated::streams().set_delays(7, std::chrono::microseconds{300});
  DeviceCopies copies{gpu()};
  for (int value = 1; value <= 40; ++value) {
    at::Tensor copy;
    {
      const Batch batch = batch_of(static_cast<float>(value));
      copies.begin(batch);
      copy = *copies.find(batch["x"]);
    }
    copies.begin(batch_of(0));
    copies.keep_newest();
    EXPECT_TRUE(copy.cpu().eq(value).all().item<bool>());
  }
}

TEST(DeviceCopiesTest, OnlyWhatWasCopiedIsFound) {
  DeviceCopies copies{gpu()};
  const Batch first = batch_of(1);
  const Batch second = batch_of(2);
  EXPECT_FALSE(copies.find(first["x"]).has_value());
  copies.begin(first);
  copies.begin(second);
  EXPECT_TRUE(copies.find(first["x"]).has_value());
  copies.keep_newest();
  EXPECT_FALSE(copies.find(first["x"]).has_value());
  EXPECT_TRUE(copies.find(second["x"])->cpu().eq(2).all().item<bool>());
}

}  // namespace
}  // namespace pharos::ml
