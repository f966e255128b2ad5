#include "generators.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "drill.hpp"
#include "recording.hpp"

namespace pharos::simulated {
namespace {

constexpr std::int64_t kStateBytes = 16;

}  // namespace

DeviceGenerator::DeviceGenerator(c10::DeviceIndex device)
    : c10::GeneratorImpl{c10::Device{kDeviceType, device}, c10::DispatchKeySet{c10::DispatchKey::PrivateUse1}} {}

void DeviceGenerator::set_current_seed(std::uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

std::uint64_t DeviceGenerator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void DeviceGenerator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK(state.is_cpu() && state.numel() == kStateBytes && state.dtype() == c10::scalarTypeToTypeMeta(at::kByte),
              "the state of a simulated device's generator has 16 bytes, on the CPU");
  if (is_left_out("a generator's state is set")) return;
  const auto* const bytes = static_cast<const char*>(state.data());
  std::memcpy(&seed_, bytes, sizeof seed_);
  std::memcpy(&offset_, bytes + sizeof seed_, sizeof offset_);
}

c10::intrusive_ptr<c10::TensorImpl> DeviceGenerator::get_state() const {
  TORCH_CHECK(streams().current(device().index()).recording() == nullptr,
              "the state of a generator is not known while work is recorded");
  const at::Tensor state = at::empty({kStateBytes}, at::kByte);
  auto* const bytes = state.data_ptr<std::uint8_t>();
  std::memcpy(bytes, &seed_, sizeof seed_);
  std::memcpy(bytes + sizeof seed_, &offset_, sizeof offset_);
  return state.getIntrusivePtr();
}

DeviceGenerator* DeviceGenerator::clone_impl() const {
  auto* const copy = new DeviceGenerator{device().index()};
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static const auto& all = *[] {
    auto* const generators = new std::vector<at::Generator>;
    for (c10::DeviceIndex i = 0; i < kDevices; ++i) generators->push_back(at::make_generator<DeviceGenerator>(i));
    return generators;
  }();
  const c10::DeviceIndex index = device < 0 ? Streams::device() : device;
  TORCH_CHECK(index < kDevices, "there is no simulated device ", static_cast<int>(index));
  return all[static_cast<std::size_t>(index)];
}

at::Generator generator_of_kernel(at::Generator generator) {
  TORCH_CHECK(generator.device().type() == kDeviceType,
              "a kernel of a simulated device cannot draw from a generator of ", generator.device());
  const std::lock_guard lock{generator.mutex()};
  if (RecordedWork* const recording = streams().current(generator.device().index()).recording()) {
    const at::Generator drawn_from = at::detail::createCPUGenerator();
    recording->add_draw(generator, drawn_from);
    return drawn_from;
  }
  const std::uint64_t offset = generator.get_offset();
  if (!is_left_out("a kernel's draw changes the generator")) generator.set_offset(offset + 1);
  return at::detail::createCPUGenerator(seed_of_kernel(generator.current_seed(), offset));
}

std::uint64_t seed_of_kernel(std::uint64_t seed, std::uint64_t offset) {
  std::uint64_t mixed = seed + (offset + 1) * 0x9e3779b97f4a7c15ULL;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  return mixed ^ (mixed >> 31);
}

}  // namespace pharos::simulated
