#include <array>
#include <atomic>
#include <cstddef>

#include <pharos/ml/models/kernels.hpp>

namespace pharos::ml::detail {
namespace {

std::atomic<const Kernels*>& registered_for(at::DeviceType device) {
  static std::array<std::atomic<const Kernels*>, at::COMPILE_TIME_MAX_DEVICE_TYPES> kernels{};
  return kernels.at(static_cast<std::size_t>(device));
}

}  // namespace

void register_kernels(at::DeviceType device, const Kernels& kernels) {
  registered_for(device) = &kernels;
}
const Kernels* kernels_for(at::DeviceType device) {
  return registered_for(device);
}

}  // namespace pharos::ml::detail
