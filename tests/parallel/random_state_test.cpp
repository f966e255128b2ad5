// The states of random generators, with GPUs that libtorch believes in and that are CPU generators.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/random_state.hpp>

namespace pharos::ml {
namespace {

/// Two GPUs, each of which is in use or not.
struct TwoGpus final : at::PrivateUse1HooksInterface {
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex index) const override { return in_use.at(static_cast<std::size_t>(index)); }
  at::DeviceIndex deviceCount() const override { return 2; }
  const at::Generator& getDefaultGenerator(at::DeviceIndex index) const override {
    return generators.at(static_cast<std::size_t>(index));
  }

  std::array<bool, 2> in_use{};
  std::array<at::Generator, 2> generators{at::detail::createCPUGenerator(1), at::detail::createCPUGenerator(2)};
};

TwoGpus& gpus() {
  static auto* const only = [] {
    auto* const gpus = new TwoGpus;
    at::RegisterPrivateUse1HooksInterface(gpus);
    return gpus;
  }();
  return *only;
}

std::uint64_t drawn_by(std::size_t gpu) {
  return at::check_generator<at::CPUGeneratorImpl>(gpus().generators.at(gpu))->random64();
}

TEST(RandomState, IsThatOfTheSameGpuWhenAnotherOneHasComeIntoUse) {
  for (const bool as_bytes : {false, true}) {
    gpus().in_use = {false, true};
    seed_generators(7);
    const RandomState then = RandomState::now();
    const std::uint64_t drawn = drawn_by(1);
    gpus().in_use = {true, true};
    gpus().generators[0].set_current_seed(9);
    const std::uint64_t of_other = drawn_by(0);
    gpus().generators[0].set_current_seed(9);
    (as_bytes ? RandomState::from_bytes(then.bytes()) : then).restore();
    EXPECT_EQ(drawn_by(1), drawn);
    EXPECT_EQ(drawn_by(0), of_other) << "a GPU that was not in use keeps its state";
  }
}

TEST(RandomState, SaysWhereBytesAreMissing) {
  gpus().in_use = {false, true};
  const std::vector<std::byte> bytes = RandomState::now().bytes();
  // The two states have the same size, so a half of the bytes would be one whole state.
  for (const std::size_t missing : {std::size_t{1}, bytes.size() / 2 - 1, bytes.size() / 2 + 1, bytes.size() - 1}) {
    EXPECT_THROW(RandomState::from_bytes(std::span{bytes}.first(bytes.size() - missing)), InvalidArgument);
  }
}

}  // namespace
}  // namespace pharos::ml
