#include <array>
#include <atomic>
#include <cstddef>

#include <pharos/ml/models/row_losses.hpp>

namespace pharos::ml::detail {
namespace {

std::atomic<RowLosses>& kernel_of(at::DeviceType device) {
  static std::array<std::atomic<RowLosses>, at::COMPILE_TIME_MAX_DEVICE_TYPES> kernels{};
  return kernels.at(static_cast<std::size_t>(device));
}

}  // namespace

void register_row_losses(at::DeviceType device, RowLosses kernel) {
  kernel_of(device) = kernel;
}
RowLosses row_losses(at::DeviceType device) {
  return kernel_of(device);
}

}  // namespace pharos::ml::detail
