#pragma once

#include <cstddef>

namespace pharos::ml {

/// Memory in which every floating point number is NaN. Parameters lie in it after a failure. It may be written to.
/// Until then it takes 1 MiB of memory whatever its size, because after a failure there may be no more. If it cannot be
/// made, the process ends (PHAROS_CHECK). Owned by Gathering; the destructor unmaps it, so nothing may point to it
/// then.
class NanMemory {
 public:
  explicit NanMemory(std::size_t bytes);
  NanMemory(NanMemory&&) = delete;
  ~NanMemory();

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace pharos::ml
