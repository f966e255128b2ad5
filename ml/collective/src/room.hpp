#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace pharos::ml {

/// Memory for a while, with anything in it.
struct Room {
  std::unique_ptr<std::byte[]> memory{};
  std::size_t bytes = 0;

  std::byte* data() const { return memory.get(); }
};

/// Rooms that are used again: new memory costs more than what is done in it. Any thread.
class Rooms {
 public:
  Room take(std::size_t bytes) {
    if (bytes == 0) return {};
    {
      const std::lock_guard lock{mutex_};
      const auto fits = std::find_if(spare_.begin(), spare_.end(), [&](const Room& each) {
        return each.bytes >= bytes && each.bytes / kWasteMax <= bytes;
      });
      if (fits != spare_.end()) {
        Room room = std::move(*fits);
        spare_.erase(fits);
        return room;
      }
    }
    return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
  }
  /// The one that was given back first goes when there are too many.
  void give_back(Room room) {
    if (room.bytes == 0) return;
    const std::lock_guard lock{mutex_};
    spare_.push_back(std::move(room));
    if (spare_.size() > kSpareMax) spare_.erase(spare_.begin());
  }

 private:
  static constexpr std::size_t kSpareMax = 8;
  static constexpr std::size_t kWasteMax = 4;  // times as large as what is asked for

  std::mutex mutex_;
  std::vector<Room> spare_;
};

}  // namespace pharos::ml
