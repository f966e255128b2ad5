#include <cuda_runtime.h>

#include <cstddef>
#include <span>

#include <pharos/ml/stored_pins.hpp>

namespace pharos::ml {
namespace {

/// Processes have mapped the object store for reading only, so the GPU may only read there, too. All GPUs of the
/// process may.
bool pin(std::span<const std::byte> memory) {
  void* const address = const_cast<std::byte*>(memory.data());
  if (::cudaHostRegister(address, memory.size(), cudaHostRegisterPortable | cudaHostRegisterReadOnly) == cudaSuccess) {
    return true;
  }
  ::cudaGetLastError();  // otherwise whoever asks next is told of this
  return false;
}

void unpin(std::span<const std::byte> memory) {
  ::cudaHostUnregister(const_cast<std::byte*>(memory.data()));
}

[[maybe_unused]] const bool registers_host_memory = (detail::register_host_memory({&pin, &unpin}), true);

}  // namespace
}  // namespace pharos::ml
