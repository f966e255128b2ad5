#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace pharos::ml {

/// A temporary buffer. Its contents are undefined at first. A buffer that is not given back is freed by its owner.
struct ScratchBuffer {
  std::unique_ptr<std::byte[]> memory{};
  std::size_t bytes = 0;

  std::byte* data() const { return memory.get(); }
};

/// Buffers that are reused, because new memory costs more than the work that is done in it. Keeps at most 8 spare
/// buffers, and gives out one that is at most four times as large as needed. A StreamBackend and a HierarchicalBackend
/// each own one, which outlives their operations; the destructor frees the spare buffers. Any thread.
class ScratchBuffers {
 public:
  /// Throws std::bad_alloc if there is no memory. Returns an empty buffer for 0 bytes.
  ScratchBuffer take(std::size_t bytes) {
    if (bytes == 0) return {};
    {
      const std::lock_guard lock{mutex_};
      const auto fits = std::find_if(spare_.begin(), spare_.end(), [&](const ScratchBuffer& each) {
        return each.bytes >= bytes && each.bytes / kWasteMax <= bytes;
      });
      if (fits != spare_.end()) {
        ScratchBuffer buffer = std::move(*fits);
        spare_.erase(fits);
        return buffer;
      }
    }
    return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
  }
  /// When there are too many spare buffers, the one that was given back first is freed.
  void give_back(ScratchBuffer buffer) {
    if (buffer.bytes == 0) return;
    const std::lock_guard lock{mutex_};
    spare_.push_back(std::move(buffer));
    if (spare_.size() > kSpareMax) spare_.erase(spare_.begin());
  }

 private:
  static constexpr std::size_t kSpareMax = 8;
  static constexpr std::size_t kWasteMax = 4;  // a buffer may be this many times as large as needed

  std::mutex mutex_;
  std::vector<ScratchBuffer> spare_;
};

}  // namespace pharos::ml
