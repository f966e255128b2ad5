#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <new>

namespace pharos::ml {

/// Memory that begins at multiples of 64 bytes. Owned by StreamBackend. free() ignores memory that it does not know.
/// One thread. The destructor frees what has not been freed.
class AlignedMemory {
 public:
  /// Returns memory filled with zeros; nullptr if there is not enough.
  std::byte* allocate(std::size_t bytes) {
    Owned memory{new (kAlignment, std::nothrow) std::byte[std::max<std::size_t>(bytes, 1)]{}};
    std::byte* const begin = memory.get();
    if (begin != nullptr) owned_.emplace(begin, std::move(memory));
    return begin;
  }
  void free(std::byte* memory) { owned_.erase(memory); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
  };
  using Owned = std::unique_ptr<std::byte[], Free>;

  std::map<std::byte*, Owned> owned_;
};

}  // namespace pharos::ml
