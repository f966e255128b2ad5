#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/large_copy.hpp>
#include <pharos/object_store/location.hpp>
#include <pharos/object_store/store_memory.hpp>

namespace pharos::object_store {

class Lessee;

/// The node, however it is asked. What it answers may take time.
class Lessor {
 public:
  virtual ~Lessor() = default;
  /// kExhausted, with numbers, when there is no room.
  virtual Result<Slab> lease(std::uint64_t slot_bytes) = 0;
  virtual void give_back(std::uint32_t first_slot) = 0;
  /// An object that is out on disk, and that the process has pinned to read, is brought back to memory. kExhausted:
  /// there is no room for it; kObjectLost, kOwnerDied: why there is no such object any more.
  virtual Result<void> bring(const Location& location) = 0;
  /// An object of another node: where it is here, to be borrowed soon. It is brought when it is read. kUnavailable,
  /// kObjectLost, kOwnerDied: why it cannot be.
  virtual Result<Location> import(const Location& location) = 0;
};

class View;

/// An object that is complete, and this process's share in it: it lasts as long as this does, in memory or on disk. Any
/// thread.
class Object : public std::enable_shared_from_this<Object> {
 public:
  enum class Share : std::uint8_t {
    kHeld,  ///< this process's: it is let go with this
    kKept,  ///< another's, which lasts until nobody keeps it
  };
  /// `bytes`: where it lies while it is in memory. `pin`: of one that is kept.
  Object(std::shared_ptr<Lessee> lessee, Share share, const Location& location, std::span<const std::byte> bytes,
         std::optional<std::uint32_t> pin)
      : lessee_{std::move(lessee)}, location_{location}, bytes_{bytes}, share_{share}, pin_{pin} {}
  Object(Object&&) = delete;
  ~Object();

  const Location& location() const { return location_; }
  std::size_t size() const { return bytes_.size(); }
  /// Where it lies, while somebody has a view.
  std::span<const std::byte> where() const { return bytes_; }
  /// Of bytes that lie there.
  std::size_t offset_of(std::span<const std::byte> bytes) const {
    return static_cast<std::size_t>(bytes.data() - bytes_.data());
  }
  /// What it holds, in memory for as long as anybody has that view. May wait for the node when it is out on disk.
  /// kExhausted: there is no room, or too much is read at once; kObjectLost: the disk has lost it.
  Result<std::shared_ptr<const View>> read();
  /// The same without waiting: null when it is out.
  Result<std::shared_ptr<const View>> read_now();
  bool in_memory() const;
  /// Another node has it in its memory.
  void note_origin(NodeId node) { origin_.store(node); }
  /// A node that need not bring it: this one, unless it is out and known to have come from another.
  NodeId nearest() const;
  /// It is its heir's now, who has been told of it.
  void hand_over() { handed_over_.store(true); }

 private:
  friend class Lessee;
  friend class View;

  Result<std::shared_ptr<const View>> begin_reading(bool& in_memory);
  void end_reading();

  const std::shared_ptr<Lessee> lessee_;
  const Location location_;
  const std::span<const std::byte> bytes_;
  const Share share_;
  std::atomic<bool> handed_over_ = false;
  std::atomic<NodeId> origin_ = NodeId{};

  std::mutex mutex_;
  std::optional<std::uint32_t> pin_;
  std::size_t readings_ = 0;  // that have begun and not ended
  std::weak_ptr<const View> view_;
};

/// An object in memory. Any thread.
class View {
 public:
  explicit View(std::shared_ptr<Object> object) : object_{std::move(object)} {}
  View(View&&) = delete;
  ~View() { object_->end_reading(); }

  std::span<const std::byte> bytes() const { return object_->bytes_; }

 private:
  const std::shared_ptr<Object> object_;
};

/// An object that is being written. One thread. Given up unless it is sealed. Its memory is entered into the process's
/// page tables as it is written by write(), or once in whole by bytes().
class WritableObject {
 public:
  /// `readable`: the same bytes, where everybody will read them.
  WritableObject(std::shared_ptr<Lessee> lessee, const Location& location, std::span<std::byte> bytes,
                 std::span<const std::byte> readable, bool populated)
      : lessee_{std::move(lessee)}, location_{location}, bytes_{bytes}, readable_{readable}, populated_{populated} {}
  WritableObject(WritableObject&&) noexcept = default;
  WritableObject& operator=(WritableObject&&) = delete;
  ~WritableObject();

  std::span<std::byte> bytes();
  /// Where they are, to be written there by write().
  std::span<std::byte> where() const { return bytes_; }
  /// `to` lies in them.
  void write(std::byte* to, const void* from, std::size_t count);
  /// From now on it never changes, and others may read it.
  std::shared_ptr<Object> seal() &&;

 private:
  std::shared_ptr<Lessee> lessee_;  // null once sealed
  Location location_;
  std::span<std::byte> bytes_;
  std::span<const std::byte> readable_;
  bool populated_;
};

/// What one process has of the store: the slabs that it has leased, its objects, its pins. Objects share it, so it
/// lasts as long as any of them. Any thread.
/// Failure: kExhausted when the store is full, or when this process has kPinsMax pins; kObjectLost for an object that
/// has ended, kOwnerDied if that is because its owner has.
/// End: the node, which sees the end of `life`, takes everything back.
class Lessee final : public std::enable_shared_from_this<Lessee> {
 public:
  /// Free slots of slabs that are kept although nothing lies there.
  static constexpr std::uint64_t kKeptBytes = std::uint64_t{256} << 20;

  /// Which process of which node.
  struct Self {
    CallerId caller;
    NodeId node;
  };
  static std::shared_ptr<Lessee> make(const Self& self, std::uint32_t table, std::unique_ptr<StoreMemory> memory,
                                      std::weak_ptr<Lessor> lessor, Fd life = {});
  ~Lessee();

  /// Room for an object. With an heir: it will be handed over. The label says where it comes from.
  Result<WritableObject> create(std::uint64_t bytes, CallerId heir = {}, std::string_view label = {});
  /// A share in another's object. May wait for the node, when it is another node's, or there is none.
  Result<std::shared_ptr<Object>> borrow(const Location& location);
  /// The same without waiting, of an object of this node.
  Result<std::shared_ptr<Object>> borrow_here(const Location& location);
  bool is_here(const Location& location) const { return location.node == self_.node; }
  /// One that this process has a share in and that these bytes are a part of, if there is such.
  std::shared_ptr<Object> object_with(std::span<const std::byte> bytes);
  /// An object that was made for this process.
  Result<std::shared_ptr<Object>> take_over(const Location& location);

  /// Gives back the slabs that nothing lies in: others need memory.
  void trim();
  /// Nothing here is this process's any more, as in a child of fork(), where this needs no saying.
  void abandon() { abandoned_.store(true); }

 private:
  friend class Object;
  friend class WritableObject;

  struct Leased {
    Slab slab;
    std::byte* memory = nullptr;
    std::vector<std::uint64_t> populated{};  // of each slot: how many bytes are in this process's page tables
  };
  /// Slots of one size.
  struct Slots {
    std::vector<std::uint32_t> free;  // the last one was used last, and is warm
    std::vector<std::uint32_t> busy;  // free once nobody keeps what lies there, or once the heir lets go
    std::size_t looked_at = 0;        // the next of `busy` to look at
  };

  Lessee(const Self& self, std::uint32_t table, std::unique_ptr<StoreMemory> memory, std::weak_ptr<Lessor> lessor,
         Fd life);

  const Ledger& ledger() const { return memory_->ledger(); }
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed) || ::getpid() != process_; }
  /// Under the mutex.
  bool take_slot(Slots& slots, std::uint32_t& slot);
  Leased* leased_with(std::uint32_t slot);
  bool give_back_if_idle(Leased& leased);
  void slot_is_free(std::uint32_t slot);

  void populate(std::span<std::byte> memory) { memory_->populate(memory); }
  void note_populated(const Place& place, std::size_t bytes);
  void give_up(const Place& place);
  std::shared_ptr<Object> seal(const Location& location, std::span<const std::byte> readable);
  Result<void> lease(std::uint64_t slot_bytes);
  void let_go(const Object& object);
  Result<std::uint32_t> take_pin();
  void drop_pin(std::uint32_t pin);
  std::shared_ptr<Object> add(Object::Share share, const Location& location, std::span<const std::byte> bytes,
                              std::optional<std::uint32_t> pin = {});
  struct Kept {
    std::uint32_t pin;
    std::span<const std::byte> bytes;
  };
  Result<std::optional<Kept>> keep(const Location& location);

  const Self self_;
  const std::uint32_t table_;
  const std::unique_ptr<StoreMemory> memory_;
  const std::weak_ptr<Lessor> lessor_;
  const Fd life_;
  const pid_t process_ = ::getpid();  // a child of fork() has no part in this
  std::atomic<bool> abandoned_ = false;

  SpareCore spare_core_;

  std::mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::multimap<const std::byte*, Object*> objects_;  // by where they begin
  std::map<std::uint32_t, Leased> slabs_;             // by first slot
  std::map<std::uint64_t, Slots> of_size_;            // by slot_bytes
  std::uint64_t free_bytes_ = 0;                      // of all slots in `free`
  std::vector<std::uint32_t> free_pins_;
  std::uint32_t pins_ = 0;           // those from here on have never been used
  std::uint32_t provided_pins_ = 0;  // those from here on have no memory
};

}  // namespace pharos::object_store
