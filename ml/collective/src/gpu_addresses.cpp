#include <atomic>

#include <pharos/ml/collective/gpu_addresses.hpp>

namespace pharos::ml::detail {
namespace {

std::atomic<IsOfGpu> registered{nullptr};

}  // namespace

void register_is_of_gpu(IsOfGpu is_of_gpu) {
  registered = is_of_gpu;
}
bool is_of_gpu(const void* address) {
  const IsOfGpu is_of_gpu = registered;
  return is_of_gpu != nullptr && is_of_gpu(address);
}

}  // namespace pharos::ml::detail
