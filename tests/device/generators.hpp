#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>

#include "queues.hpp"

namespace pharos::simulated {

/// The random generator of a device. Its state is a seed, and how many kernels have drawn from it. A kernel gets both
/// when it is queued, as on CUDA, so what it draws depends on no other stream and on no delay.
class DeviceGenerator final : public c10::GeneratorImpl {
 public:
  explicit DeviceGenerator(c10::DeviceIndex device);

  void set_current_seed(std::uint64_t seed) override;
  void set_offset(std::uint64_t offset) override { offset_ = offset; }
  std::uint64_t get_offset() const override { return offset_; }
  std::uint64_t current_seed() const override { return seed_; }
  std::uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

 private:
  DeviceGenerator* clone_impl() const override;

  std::uint64_t seed_ = c10::default_rng_seed_val;
  std::uint64_t offset_ = 0;
};

/// Throws unless there is such a device; -1 is the current one.
const at::Generator& default_generator(c10::DeviceIndex device);

/// Returns a generator of the CPU for the next kernel that draws from this generator of a device, and counts the
/// kernel. Any thread.
at::Generator generator_of_kernel(at::Generator generator);
/// The seed of that generator.
std::uint64_t seed_of_kernel(std::uint64_t seed, std::uint64_t offset);

}  // namespace pharos::simulated
