#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/empty.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/random_state.hpp>

namespace pharos::ml {
namespace {

/// The kind of devices that this process has beside the CPU. libtorch remembers that it has no CUDA once it was asked,
/// so it is asked only where its CUDA library is loaded.
std::optional<at::DeviceType> accelerator() {
  if (at::isPrivateUse1HooksRegistered()) return at::kPrivateUse1;
  void* const cuda = ::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  if (cuda == nullptr) return std::nullopt;
  ::dlclose(cuda);
  if (at::globalContext().hasCUDA()) return at::kCUDA;
  return std::nullopt;
}

/// The CPU's generator, then those of the devices that are in use.
std::vector<at::Generator> generators() {
  std::vector<at::Generator> all{at::detail::getDefaultCPUGenerator()};
  const auto kind = accelerator();
  if (!kind) return all;
  const auto& hooks = at::globalContext().getAcceleratorHooksInterface(kind);
  for (at::DeviceIndex i = 0; i < hooks.deviceCount(); ++i) {
    if (hooks.hasPrimaryContext(i)) all.push_back(hooks.getDefaultGenerator(i));
  }
  return all;
}

std::size_t state_bytes(at::Generator& generator) {
  const std::lock_guard lock{generator.mutex()};
  return generator.get_state().nbytes();
}

}  // namespace

RandomState RandomState::now() {
  RandomState state;
  for (at::Generator& each : generators()) {
    const std::lock_guard lock{each.mutex()};
    state.states_.push_back(each.get_state());
  }
  return state;
}

RandomState RandomState::from_bytes(std::span<const std::byte> bytes) {
  RandomState state;
  for (at::Generator& each : generators()) {
    if (bytes.empty() && !state.states_.empty()) break;  // This GPU was not in use where the state was saved.
    const std::size_t size = state_bytes(each);
    if (bytes.size() < size) {
      throw_error(Error{ErrorCode::kInvalidArgument, "a random generator's state has " + std::to_string(bytes.size()) +
                                                         " bytes where it should have " + std::to_string(size)});
    }
    at::Tensor& its = state.states_.emplace_back(at::empty({static_cast<std::int64_t>(size)}, at::kByte));
    std::memcpy(its.data_ptr(), bytes.data(), size);
    bytes = bytes.subspan(size);
  }
  return state;
}

void RandomState::restore() const {
  std::vector<at::Generator> all = generators();
  for (std::size_t i = 0; i < std::min(all.size(), states_.size()); ++i) {
    const std::lock_guard lock{all[i].mutex()};
    all[i].set_state(states_[i]);
  }
}

std::vector<std::byte> RandomState::bytes() const {
  std::vector<std::byte> bytes;
  for (const at::Tensor& each : states_) {
    const auto* const begin = static_cast<const std::byte*>(each.const_data_ptr());
    bytes.insert(bytes.end(), begin, begin + each.nbytes());
  }
  return bytes;
}

void seed_generators(std::uint64_t seed) {
  for (at::Generator& each : generators()) {
    const std::lock_guard lock{each.mutex()};
    each.set_current_seed(seed);
  }
}

}  // namespace pharos::ml
