// Copies to a GPU from the object store. tests/device runs these tests on a simulated GPU.

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include <pharos/ml/array.hpp>
#include <pharos/ml/device.hpp>
#include <pharos/ml/module_state.hpp>
#include <pharos/ml/stored_pins.hpp>
#include <pharos/pharos.hpp>

namespace pharos::ml {
namespace {

using torch::Tensor;

Array numbers(std::int64_t count, float value) {
  return Array::of(std::vector<float>(static_cast<std::size_t>(count), value));
}

// The store is so small that its memory goes from one object to others, of other sizes, again and again.
TEST(StoredArrays, ReachAGpuAsTheyAre) {
  const bool has_gpu = at::isPrivateUse1HooksRegistered() || std::filesystem::exists("/dev/nvidiactl");
  if (!has_gpu) GTEST_SKIP() << "not run here: this machine has no GPU";
  constexpr std::int64_t kLargest = 3 << 20;
  constexpr std::int64_t kCopies = 60;
  Runtime runtime{{.object_store = 32_MiB}};
  const at::Device device = gpu(0);
  std::vector<Tensor> copies;
  for (std::int64_t i = 0; i < kCopies; ++i) {
    const Array array = runtime.submit<&numbers>(kLargest * (1 + i * i % 7) / 7, static_cast<float>(i)).get();
    EXPECT_NE(pin_stored(array.bytes().span()), nullptr) << "the driver has not taken the memory";
    copies.push_back(tensor_of(array, device));
  }
  for (std::int64_t i = 0; i < kCopies; ++i) {
    EXPECT_TRUE(copies[static_cast<std::size_t>(i)].eq(static_cast<double>(i)).all().item<bool>()) << i;
  }
}

}  // namespace
}  // namespace pharos::ml
