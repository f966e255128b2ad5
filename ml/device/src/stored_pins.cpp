#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include <pharos/ml/stored_pins.hpp>
#include <pharos/object_store/object_memory.hpp>

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Memory = std::span<const std::byte>;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPinnedMax = std::size_t{4} << 30;
constexpr auto kUnusedTime = 10s;

const std::byte* end_of(Memory memory) {
  return memory.data() + memory.size();
}

Memory whole_pages(Memory object) {
  return {object.data(), (object.size() + kPage - 1) / kPage * kPage};
}

/// The memory of objects that this process has registered with the GPUs' driver, by where it begins. A piece of memory
/// that is in use, because a Pin of it exists, has the pages of the object there: they cannot change as long as the
/// object is read. Other pieces may have got other pages since; their number of releases tells.
class StoredPins {
 public:
  static StoredPins& of_process() {
    static auto& pins = *new StoredPins;  // threads may pin as long as the process lasts
    return pins;
  }

  void use(detail::HostMemory functions) {
    const std::lock_guard lock{mutex_};
    functions_ = functions;
    object_store::before_unmapping([](Memory store) { of_process().forget(store); });
  }

  Pin pin(Memory bytes) {
    {
      const std::lock_guard lock{mutex_};
      if (functions_.pin == nullptr) return nullptr;
    }
    const auto object = object_store::object_memory(bytes);
    if (!object) return nullptr;
    const Memory memory = whole_pages(object->bytes);
    const std::lock_guard lock{mutex_};
    if (const auto there = pieces_.find(memory.data()); there != pieces_.end()) {
      Piece& piece = there->second;
      if (piece.in_use() || (piece.releases == object->releases && piece.memory.size() >= memory.size())) {
        piece.releases = object->releases;
        piece.used = Clock::now();
        return piece.mark;
      }
    }
    make_room(memory);
    if (bytes_ + memory.size() > kPinnedMax || !functions_.pin(memory)) return nullptr;
    bytes_ += memory.size();
    const auto added = pieces_.emplace(memory.data(), Piece{memory, object->releases, Clock::now()});
    return added.first->second.mark;
  }

 private:
  struct Piece {
    Memory memory;
    std::uint64_t releases;
    Clock::time_point used;
    std::shared_ptr<const bool> mark = std::make_shared<const bool>(true);

    bool in_use() const { return mark.use_count() != 1; }
  };
  using Pieces = std::map<const std::byte*, Piece>;

  Pieces::iterator let_go(Pieces::iterator piece) {
    functions_.unpin(piece->second.memory);
    bytes_ -= piece->second.memory.size();
    return pieces_.erase(piece);
  }

  /// Lets go of what overlaps, which belonged to objects that have ended, and of what was not used lately.
  void make_room(Memory coming) {
    const auto before = Clock::now() - kUnusedTime;
    for (auto each = pieces_.begin(); each != pieces_.end();) {
      const Piece& piece = each->second;
      const bool overlaps =
          std::less{}(piece.memory.data(), end_of(coming)) && std::less{}(coming.data(), end_of(piece.memory));
      each = !piece.in_use() && (overlaps || piece.used < before) ? let_go(each) : std::next(each);
    }
    while (bytes_ + coming.size() > kPinnedMax) {
      const auto unused = std::ranges::min_element(pieces_, {}, [](const auto& each) {
        return each.second.in_use() ? Clock::time_point::max() : each.second.used;
      });
      if (unused == pieces_.end() || unused->second.in_use()) return;
      let_go(unused);
    }
  }

  void forget(Memory store) {
    const std::lock_guard lock{mutex_};
    for (auto each = pieces_.lower_bound(store.data()); each != pieces_.end() && each->first < end_of(store);) {
      each = let_go(each);
    }
  }

  std::mutex mutex_;
  detail::HostMemory functions_;
  Pieces pieces_;
  std::size_t bytes_ = 0;
};

}  // namespace

Pin pin_stored(std::span<const std::byte> bytes) {
  return StoredPins::of_process().pin(bytes);
}

void detail::register_host_memory(HostMemory functions) {
  StoredPins::of_process().use(functions);
}

}  // namespace pharos::ml
