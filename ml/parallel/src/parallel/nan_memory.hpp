#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace pharos::ml {

/// Memory in which every floating point number is NaN. Parameters lie in it after a failure. It may be written to. On
/// the CPU it takes 1 MiB of memory whatever its size until it is written to, because after a failure there may be no
/// more. If it cannot be made, the process ends there (PHAROS_CHECK); on another device the constructor throws what
/// libtorch throws. Owned by Gathering; the destructor frees it, so nothing may point to it then.
class NanMemory {
 public:
  NanMemory(std::size_t bytes, at::Device device);
  NanMemory(NanMemory&&) = delete;
  ~NanMemory();

  std::byte* data() const { return data_; }

 private:
  void map();

  at::Tensor on_device_{};  // undefined on the CPU
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace pharos::ml
