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

constexpr std::int64_t kCpu = -1;

struct Source {
  std::int64_t device;  // number of the GPU, or kCpu
  at::Generator generator;
};

/// The CPU's generator, then those of the devices that are in use.
std::vector<Source> sources() {
  std::vector<Source> all{{kCpu, at::detail::getDefaultCPUGenerator()}};
  const auto kind = accelerator();
  if (!kind) return all;
  const auto& hooks = at::globalContext().getAcceleratorHooksInterface(kind);
  for (at::DeviceIndex i = 0; i < hooks.deviceCount(); ++i) {
    if (hooks.hasPrimaryContext(i)) all.push_back({i, hooks.getDefaultGenerator(i)});
  }
  return all;
}

/// Takes so many bytes from the front.
std::span<const std::byte> take(std::span<const std::byte>& bytes, std::size_t size) {
  if (bytes.size() < size) {
    throw_error(Error{ErrorCode::kInvalidArgument, "the random generators' states end with " +
                                                       std::to_string(bytes.size()) + " bytes where there should be " +
                                                       std::to_string(size)});
  }
  const auto taken = bytes.first(size);
  bytes = bytes.subspan(size);
  return taken;
}

template <class T>
T take(std::span<const std::byte>& bytes) {
  T value;
  std::memcpy(&value, take(bytes, sizeof value).data(), sizeof value);
  return value;
}

}  // namespace

RandomState RandomState::now() {
  RandomState state;
  for (auto& [device, generator] : sources()) {
    const std::lock_guard lock{generator.mutex()};
    state.states_.push_back({device, generator.get_state()});
  }
  return state;
}

// Each state is written as the number of its device, its size, and its bytes.
RandomState RandomState::from_bytes(std::span<const std::byte> bytes) {
  RandomState state;
  while (!bytes.empty()) {
    const auto device = take<std::int64_t>(bytes);
    const auto content = take(bytes, take<std::uint64_t>(bytes));
    at::Tensor its = at::empty({static_cast<std::int64_t>(content.size())}, at::kByte);
    std::memcpy(its.data_ptr(), content.data(), content.size());
    state.states_.push_back({device, std::move(its)});
  }
  return state;
}

void RandomState::restore() const {
  for (auto& [device, generator] : sources()) {
    const auto found = std::ranges::find(states_, device, &Saved::device);
    if (found == states_.end()) continue;
    const std::lock_guard lock{generator.mutex()};
    generator.set_state(found->state);
  }
}

std::vector<std::byte> RandomState::bytes() const {
  std::vector<std::byte> bytes;
  const auto append = [&](const void* data, std::size_t size) {
    const auto* const begin = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), begin, begin + size);
  };
  for (const auto& [device, state] : states_) {
    const std::uint64_t size = state.nbytes();
    append(&device, sizeof device);
    append(&size, sizeof size);
    append(state.const_data_ptr(), size);
  }
  return bytes;
}

void seed_generators(std::uint64_t seed) {
  for (auto& [device, generator] : sources()) {
    const std::lock_guard lock{generator.mutex()};
    generator.set_current_seed(seed);
  }
}

}  // namespace pharos::ml
