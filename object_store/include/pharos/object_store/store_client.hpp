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

class StoreClient;

/// The node, as a StoreClient asks it for memory and objects. Implemented by LargeValues; a StoreClient refers to the
/// StoreNode weakly. Any thread may call, except the thread on which the node's answers arrive: lease(), bring() and
/// import() wait for an answer. These three also return kRuntimeStopped if the node is gone, and kDeadlineExceeded if
/// it does not answer in time.
class StoreNode {
 public:
  virtual ~StoreNode() = default;
  /// Returns kExhausted, with numbers in the message, if there is no room.
  virtual Result<Slab> lease(std::uint64_t slot_bytes) = 0;
  /// Does not wait. May be called with a mutex of the StoreClient held, so this function must not call the StoreClient.
  virtual void give_back(std::uint32_t first_slot) = 0;
  /// Brings an object that is out on disk back to memory. The process must have a pin on it that reads. Returns
  /// kExhausted if there is no room for the object, and kObjectLost or kOwnerDied if the object does not exist any
  /// more.
  virtual Result<void> bring(const Location& location) = 0;
  /// Returns where on this node an object of another node will be, which the process must borrow soon. The contents are
  /// fetched when the object is read. Returns kUnavailable, kObjectLost or kOwnerDied if the object cannot be had.
  virtual Result<Location> import(const Location& location) = 0;
};

class View;

/// One share that this process has in an object that is complete. Made by StoreClient, which an Object keeps alive;
/// owned by Refs and values. The object exists, in memory or on disk, at least as long as the share. Any thread may
/// call. End: the destructor gives the share up, without waiting. In a child process made by fork(), and after
/// StoreClient::abandon(), the destructor does nothing, and a new View fails with kRuntimeStopped.
class Object : public std::enable_shared_from_this<Object> {
 public:
  enum class Share : std::uint8_t {
    kHeld,  ///< the process holds the object, and lets it go with this share
    kKept,  ///< another process holds the object; a pin keeps it from ending
  };
  /// `bytes` is where the object is while it is in memory. `pin` is set for kKept.
  Object(std::shared_ptr<StoreClient> client, Share share, const Location& location, std::span<const std::byte> bytes,
         std::optional<std::uint32_t> pin)
      : client_{std::move(client)}, location_{location}, bytes_{bytes}, share_{share}, pin_{pin} {}
  Object(Object&&) = delete;
  ~Object();

  const Location& location() const { return location_; }
  std::size_t size() const { return bytes_.size(); }
  /// Where the object is. Only readable while a View of it exists.
  std::span<const std::byte> where() const { return bytes_; }
  /// The offset in the object of bytes that lie in it.
  std::size_t offset_of(std::span<const std::byte> bytes) const {
    return static_cast<std::size_t>(bytes.data() - bytes_.data());
  }
  /// Returns a view, which keeps the object in memory. Waits for the node if the object is out. Returns kExhausted if
  /// there is no room or too many objects are read at once, kObjectLost or kOwnerDied if the disk or the other node
  /// that had the contents has lost the object, and the other errors of StoreNode::bring().
  Result<std::shared_ptr<const View>> read();
  /// As read(), but without waiting: returns null if the object is out.
  Result<std::shared_ptr<const View>> read_now();
  bool in_memory() const;
  /// ReleaseCounters::of() the memory where the object is.
  std::uint64_t releases() const;
  /// Records another node that has the object in its memory.
  void note_origin(NodeId node) { origin_.store(node); }
  /// Returns a node that has the object without having to fetch it: this node, unless the object is out here and
  /// another node is known to have it.
  NodeId nearest() const;
  /// Says that the heir has been told of the object: from here on the heir must let it go, and not this process.
  void hand_over() { handed_over_.store(true); }

 private:
  friend class StoreClient;
  friend class View;

  Result<std::shared_ptr<const View>> begin_reading(bool& in_memory);
  void end_reading();

  const std::shared_ptr<StoreClient> client_;
  const Location location_;
  const std::span<const std::byte> bytes_;
  const Share share_;
  std::atomic<bool> handed_over_ = false;
  std::atomic<NodeId> origin_ = NodeId{};

  std::mutex mutex_;
  std::optional<std::uint32_t> pin_;
  std::size_t readings_ = 0;  // views that have begun and not ended
  std::weak_ptr<const View> view_;
};

/// Keeps an object in memory and gives access to its bytes. Made by Object::read(); keeps the Object alive too. Any
/// thread may call. The bytes must not be used after the destructor.
class View {
 public:
  explicit View(std::shared_ptr<Object> object) : object_{std::move(object)} {}
  View(View&&) = delete;
  ~View() { object_->end_reading(); }

  std::span<const std::byte> bytes() const { return object_->bytes_; }

 private:
  const std::shared_ptr<Object> object_;
};

/// An object that is being written, by one thread. Made by StoreClient::create(), and owned by the code that writes the
/// value. If a WritableObject is destroyed before it is sealed, the object is given up. Its memory is entered into the
/// process's page tables by write(), in parts, or by bytes(), all at once. The memory may hold bytes of an earlier
/// object: all of it must be written before seal().
class WritableObject {
 public:
  /// `readable` is the same memory, at the address where processes of this node read it.
  WritableObject(std::shared_ptr<StoreClient> client, const Location& location, std::span<std::byte> bytes,
                 std::span<const std::byte> readable, bool populated)
      : client_{std::move(client)}, location_{location}, bytes_{bytes}, readable_{readable}, populated_{populated} {}
  WritableObject(WritableObject&&) noexcept = default;
  WritableObject& operator=(WritableObject&&) = delete;
  ~WritableObject();

  std::span<std::byte> bytes();
  /// The memory of the object, for write().
  std::span<std::byte> where() const { return bytes_; }
  /// Copies `count` bytes to `to`, which must lie in the object's memory; this is not checked. A second thread may
  /// help.
  void write(std::byte* to, const void* from, std::size_t count);
  /// Completes the object: from here on it never changes, and other processes may read it. Cannot fail. The
  /// WritableObject must not be used after this.
  std::shared_ptr<Object> seal() &&;

 private:
  std::shared_ptr<StoreClient> client_;  // null when sealed
  Location location_;
  std::span<std::byte> bytes_;
  std::span<const std::byte> readable_;
  bool populated_;
};

/// The store as one process uses it: the slabs that it has leased, its objects and its pins. Objects share ownership of
/// it, so it lasts as long as any of them. Made by LargeValues when the first large value comes. Any thread may call,
/// except that functions which wait for the node must not be called on the thread where the node's answers arrive.
/// Fails with kExhausted if the store is full or this process has kPinsMax pins, with kObjectLost if an object has
/// ended, with kOwnerDied if it has ended because its owner has, and with kRuntimeStopped if the node is gone, in a
/// child process made by fork() and after abandon(). Errors of StoreNode are passed on. When this object or the process
/// ends, the node sees the end of `life` and takes everything back.
class StoreClient final : public std::enable_shared_from_this<StoreClient> {
 public:
  /// At most this many bytes of free slots are kept; beyond that slabs without objects go back to the node.
  static constexpr std::uint64_t kKeptBytes = std::uint64_t{256} << 20;

  /// Identifies this process and its node.
  struct Self {
    CallerId caller;
    NodeId node;
  };
  static std::shared_ptr<StoreClient> make(const Self& self, std::uint32_t table, std::unique_ptr<StoreMemory> memory,
                                           std::weak_ptr<StoreNode> node, Fd life = {});
  ~StoreClient();

  /// Makes room for an object. Waits for the node if no leased slab has a free slot. If `heir` is set, the object will
  /// be handed over to that process. `label` tells people where the object comes from; 64 bytes of it are kept.
  Result<WritableObject> create(std::uint64_t bytes, CallerId heir = {}, std::string_view label = {});
  /// Takes a share in an object of another process. May wait for the node, if the object belongs to another node or
  /// does not exist.
  Result<std::shared_ptr<Object>> borrow(const Location& location);
  /// As borrow(), for an object of this node (checked by PHAROS_CHECK), without waiting. An object that has ended gives
  /// kObjectLost, also if its owner has ended.
  Result<std::shared_ptr<Object>> borrow_here(const Location& location);
  bool is_here(const Location& location) const { return location.node == self_.node; }
  /// Returns the object that contains these bytes and in which this process has a share; null if there is none.
  std::shared_ptr<Object> object_with(std::span<const std::byte> bytes);
  /// Makes this process the holder of an object of this node that was made for it as the heir. Does not wait. Returns
  /// kObjectLost if the object has ended, or if its maker is not the holder any more.
  Result<std::shared_ptr<Object>> take_over(const Location& location);

  /// Gives slabs without objects back to the node, because others need memory. Does not wait.
  void trim();
  /// Says that nothing here belongs to this process, as in a child process made by fork(). In a child process this is
  /// detected anyway.
  void abandon() { abandoned_.store(true); }

 private:
  friend class Object;
  friend class WritableObject;

  struct Leased {
    Slab slab;
    std::byte* memory = nullptr;
    std::vector<std::uint64_t> populated{};  // how many bytes of each slot are in this process's page tables
  };
  /// The slots of one size.
  struct Slots {
    std::vector<std::uint32_t> free;  // the most recently used last; its memory is warm
    // Slots whose objects this process has given up. They become free when no process keeps the object, or when the
    // heir lets it go.
    std::vector<std::uint32_t> busy;
    std::size_t looked_at = 0;  // the index in `busy` to look at next
  };

  StoreClient(const Self& self, std::uint32_t table, std::unique_ptr<StoreMemory> memory, std::weak_ptr<StoreNode> node,
              Fd life);

  const ObjectLedger& ledger() const { return memory_->ledger(); }
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed) || ::getpid() != process_; }
  /// Must be called with the mutex held, like the three functions below it.
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
  const std::weak_ptr<StoreNode> node_;
  const Fd life_;
  // A child process made by fork() must not use the parent's leases.
  const pid_t process_ = ::getpid();
  std::atomic<bool> abandoned_ = false;

  SpareCore spare_core_;

  std::mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::multimap<const std::byte*, Object*> objects_;  // by the address where they begin
  std::map<std::uint32_t, Leased> slabs_;             // by first slot
  std::map<std::uint64_t, Slots> of_size_;            // by slot_bytes
  std::uint64_t free_bytes_ = 0;                      // the sum of all slots in `free`
  std::vector<std::uint32_t> free_pins_;
  std::uint32_t pins_ = 0;           // the pins from this number on have never been used
  std::uint32_t provided_pins_ = 0;  // the pins from this number on have no memory
};

}  // namespace pharos::object_store
