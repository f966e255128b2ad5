#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/location.hpp>
#include <pharos/object_store/slab.hpp>

/// The protocol by which the processes of a node write, read and reuse the memory of objects, although any of them may
/// be killed at any instant. The ledger lies in shared memory and consists of atomic words only. The contents of
/// objects lie elsewhere.
///
/// A slot is a place for one object at a time. The slot's word holds its state, its generation, which grows whenever an
/// object ends, and a flag that the object was let go. Letting an object go means that its holder gives up its
/// reference. Slots belong to slabs, and the leaseholder of a slab is the process that has leased it from the node.
/// These changes of state are possible:
///
///   free -> writing     by the leaseholder of the slot's slab
///   writing -> sealed   by the leaseholder: the object is complete, and never changes again
///   writing -> free     by the leaseholder, or by the node if the leaseholder is dead
///   sealed -> leaving   by the node, which then writes the object to disk
///   leaving -> sealed   by a process that wants to read the object, or by the node if the disk does not take it
///   leaving -> out      by the node: the object is on disk, and its slot has no memory
///   out -> sealed       by the node, which has brought the object back
///
/// An object is let go by its holder, or by the node if the holder is dead. An object ends when it was let go and no
/// process has a pin on it. The leaseholder or the node then changes its state; if the object is out, only the node
/// does:
///
///   sealed, leaving -> free    the leaseholder may use the slot again
///   out -> gone                the slot has no memory, and is used again when its slab is leased anew
///
/// A pin keeps an object from ending. It is a word in a table that only one process writes. The word holds the object's
/// slot and generation, and says whether the process only keeps the object or also reads it. To pin an object, a
/// process writes the pin and then compares the generation in the slot's word. If the object was let go, the process
/// also increments the visits in the slot's word, and compares again if the word has changed meanwhile. To read the
/// object, the process changes `leaving` back to `sealed`; if the object is out, the process asks the node to bring it
/// back, with the pin in place. To end an object, the leaseholder or the node reads the slot's word, then looks through
/// all tables for pins, and then changes the word, which fails if the word has changed since it was read.
///
/// These rules hold:
///
/// 1. An object with a pin does not end. A pin that was there when the object was let go is seen in the tables. A later
///    pin has either changed the word in time, so that the end fails, or is refused.
/// 2. An object that a process reads stays in memory. The node first marks the object as leaving, and then looks
///    through the tables for pins that read. A reader that comes later changes the state back to sealed.
/// 3. What dead processes have left behind is harmless: the node clears their tables, lets go of the objects that they
///    held, and frees the slots that they were writing.
/// 4. A slot never has the same generation again, so an old location is refused and never reads another object.
///
/// All these loads and changes are sequentially consistent.
///
/// The holder of an object is the process that may let it go, at first its maker. The result of a call is made for an
/// heir, a process that becomes the holder by taking it over. If the heir dies before that, the object is let go. If
/// the maker dies, the reply that names the object may still be on its way, so the node lets the object go only some
/// time later. A process that succeeds in changing the word of the holder may do with the object what the holder may
/// do. So the heir and the node never both do.
namespace pharos::object_store {

/// The state of a slot; the transitions are listed above.
enum class SlotState : std::uint8_t { kFree = 0, kWriting = 1, kSealed = 2, kLeaving = 3, kOut = 4, kGone = 5 };

/// The contents of a slot's word, unpacked.
struct SlotWord {
  std::uint32_t generation = 0;
  SlotState state = SlotState::kFree;
  bool let_go = false;
  std::uint32_t visits = 0;  // how often the object was pinned since it was let go; wraps around

  /// Returns whether the slot has an object that is complete.
  bool has_object() const {
    return state == SlotState::kSealed || state == SlotState::kLeaving || state == SlotState::kOut;
  }
};

/// One slot of the ledger, in shared memory. `word` publishes the others, so these are read and written relaxed.
/// `word`, the pins and PinTable::used are sequentially consistent: of a process that pins an object and a node that is
/// about to take it away, at least one sees the other.
struct alignas(64) SlotHeader {
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> holder;  // CallerId
  // Describe the object; written by its maker before the object is sealed.
  std::atomic<std::uint64_t> heir;  // CallerId, or 0
  std::atomic<std::uint64_t> maker;
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint64_t> size;
  std::atomic<std::uint32_t> used;  // when the object was last read, by the clock of ObjectLedger::advance()
  // Describe the slot; written by the node before the slot is leased. `pages` is also written by the leaseholder.
  std::atomic<std::uint32_t> pages;  // how many pages from the slot's beginning have storage, at least
  std::atomic<std::uint64_t> offset;
};
static_assert(sizeof(SlotHeader) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The label of a slot's object, which tells people where the object comes from.
struct alignas(64) SlotLabel {
  std::array<std::atomic<std::uint64_t>, 8> words;
};

inline constexpr std::uint32_t kPinsMax = 65'528;  // for each process

/// A pin of kind kKeep keeps its object from ending; kRead also keeps the object in memory.
enum class PinKind : std::uint8_t { kKeep, kRead };

/// The pins of one process, in shared memory.
struct alignas(64) PinTable {
  std::atomic<std::uint32_t> used;  // the pins from this index on have never been set
  alignas(64) std::array<std::atomic<std::uint64_t>, kPinsMax> pins;
};
static_assert(sizeof(PinTable) == 524'288);

/// Counters in the ledger's memory of how often the node has taken storage from the file of objects: one for each slab
/// unit, or for several. A value that does not own the memory. Any thread.
class ReleaseCounters {
 public:
  ReleaseCounters(std::atomic<std::uint32_t>* first, std::uint32_t count) : first_{first}, count_{count} {}

  /// Returns a number that grows when storage of these bytes of the file is taken away. As long as it stays the same,
  /// an object that is read there has the pages that it had before. It may grow for other reasons.
  std::uint64_t of(std::uint64_t offset, std::uint64_t bytes) const;
  /// For the node: storage of these bytes was taken away. To be called after SharedFile::release().
  void note(std::uint64_t offset, std::uint64_t bytes) const;
  /// The counter of the slab unit that this byte lies in, and how many counters there are from it to the last one.
  std::span<std::atomic<std::uint32_t>> from(std::uint64_t offset) const;

 private:
  std::atomic<std::uint32_t>* first_;
  std::uint32_t count_;
};

/// The ledger as this process has mapped it. A value that is cheap to copy and does not own the memory, which must stay
/// mapped as long as a copy is used: NodeStore and StoreMemory see to that. Any thread may call it. Slots and tables
/// are numbered from 0; a number that is too large aborts the process. has() and pin() refuse a location with such a
/// slot instead, because locations come from other processes. A function that changes the state of an object changes
/// nothing if the object has ended. seal(), take_over() and disown() do not check that.
class ObjectLedger {
 public:
  static std::size_t bytes_for(std::uint32_t slots, std::uint32_t tables);
  /// Writes an empty ledger into zeroed memory of at least bytes_for(slots, tables). Called once, by the node.
  static ObjectLedger format(std::span<std::byte> memory, std::uint32_t slots, std::uint32_t tables);
  /// Attaches to a ledger that another process has formatted. Returns kCorrupt if the memory holds none or is too
  /// small.
  static Result<ObjectLedger> attach(std::span<std::byte> memory);

  std::uint32_t slots() const { return slots_; }
  std::uint32_t tables() const { return tables_; }
  SlotHeader& slot(std::uint32_t number) const;
  SlotWord word_of(std::uint32_t slot) const;
  /// Returns whether the object exists, in memory or on disk.
  bool has(const Location& location) const;

  // Functions for the leaseholder of the slot.

  /// Tries to end the slot's object. Returns true if the slot is free afterwards, and false if the slot still has an
  /// object, is being written or has no memory.
  bool end(std::uint32_t slot) const;
  /// Begins an object in a slot, which must be free (PHAROS_CHECK). The label is cut off after 64 bytes.
  Place begin(std::uint32_t slot, const ObjectId& id, std::uint64_t size, CallerId heir,
              std::string_view label = {}) const;
  /// Returns how many bytes from the slot's beginning certainly have storage. The node calls these two functions too,
  /// when it gives storage to a slot or takes it away.
  std::uint64_t provided(std::uint32_t slot) const;
  void note_provided(std::uint32_t slot, std::uint64_t bytes) const;
  /// Completes the object, which must be the one that was begun in the slot; this is not checked.
  void seal(const Place& place) const;
  /// Gives up an object that was begun and not sealed.
  void abandon(const Place& place) const;

  // Functions for the holder of the object.

  void let_go(const Place& place) const;
  /// Makes `heir` the holder instead of the maker. Returns false if the maker is not the holder any more. The caller
  /// must have a pin on the object.
  bool take_over(const Location& location, CallerId heir) const;

  // Functions for every process that pins objects. `table` and `pin` must belong to the calling process.

  struct Pinned {
    std::uint64_t offset;
    std::uint64_t size;
    bool in_memory;  ///< false: before reading, the node must bring the object back
  };
  /// Sets the pin, or changes its kind. Returns nullopt, with no pin set, if the object has ended. The pin must have
  /// storage: see stretch_of_pins().
  std::optional<Pinned> pin(std::uint32_t table, std::uint32_t pin, PinKind kind, const Location& location) const;
  void unpin(std::uint32_t table, std::uint32_t pin) const;
  ReleaseCounters releases() const { return releases_; }

  // Functions for the node.

  /// Removes the dead holder, so that the node may let the object go. Returns false if another process is the holder,
  /// or has become the holder meanwhile.
  bool disown(const Place& place, CallerId holder) const;
  void open_table(std::uint32_t table) const;
  /// Clears the table of a process that has ended.
  void clear_table(std::uint32_t table) const;
  /// Calls `function(table, slot, kind)` for each pin that is set. The slot's object may have ended already.
  template <class F>
  void for_each_pin(F&& function) const;
  std::string label_of(std::uint32_t slot) const;

  /// These four change the state of an object. Each returns false if the object is in another state than expected.
  bool leave(const Place& place) const { return change(place, SlotState::kSealed, SlotState::kLeaving); }
  bool stay(const Place& place) const { return change(place, SlotState::kLeaving, SlotState::kSealed); }
  bool note_out(const Place& place) const { return change(place, SlotState::kLeaving, SlotState::kOut); }
  bool note_back(const Place& place) const { return change(place, SlotState::kOut, SlotState::kSealed); }
  /// Ends an object that is out. Returns whether it has ended; its slot is then gone.
  bool end_outside(const Place& place) const;
  /// Makes a slot, which must be free or gone, free at this offset.
  void lend(std::uint32_t slot, std::uint64_t offset, std::uint64_t provided) const;

  /// Advances the clock that `used` is set from. The node calls it for each slab that it leases and each object that it
  /// brings back, so `used` says which objects were read most recently.
  void advance() const;

  /// Parts of the ledger's memory, which must be given storage before they are used.
  struct Stretch {
    std::size_t begin;
    std::size_t bytes;
  };
  /// The slots of a slab, their labels, and the counters of releases there.
  std::array<Stretch, 3> stretches_of(const Slab& slab) const;
  /// From the beginning of the table.
  Stretch stretch_of_pins(std::uint32_t table, std::uint32_t pins) const;

 private:
  struct Head;
  ObjectLedger(std::span<std::byte> memory, std::uint32_t slots, std::uint32_t tables);
  PinTable& table(std::uint32_t number) const;
  std::uint32_t tables_used() const;
  bool pinned(std::uint32_t slot) const;
  bool change(const Place& place, SlotState from, SlotState to) const;
  bool end_as(std::uint32_t slot, SlotState end) const;

  Head* head_;
  SlotHeader* first_slot_;
  SlotLabel* first_label_;
  ReleaseCounters releases_;
  PinTable* first_table_;
  std::uint32_t slots_;
  std::uint32_t tables_;
};

namespace detail {

inline constexpr std::uint64_t kReads = std::uint64_t{1} << 63;

// Never 0, because 0 means that no pin is set.
constexpr std::uint64_t pin_word(const Place& place, PinKind kind) {
  return (kind == PinKind::kRead ? kReads : 0) | (std::uint64_t{place.slot} + 1) << 32 | place.generation;
}
constexpr std::uint32_t slot_of_pin(std::uint64_t word) {
  return static_cast<std::uint32_t>((word & ~kReads) >> 32) - 1;
}

}  // namespace detail

template <class F>
void ObjectLedger::for_each_pin(F&& function) const {
  for (std::uint32_t t = 0; t < tables_used(); ++t) {
    const PinTable& pins = table(t);
    const std::uint32_t used = std::min(pins.used.load(), kPinsMax);
    for (std::uint32_t i = 0; i < used; ++i) {
      const std::uint64_t word = pins.pins[i].load();
      if (word == 0) continue;
      function(t, detail::slot_of_pin(word), (word & detail::kReads) != 0 ? PinKind::kRead : PinKind::kKeep);
    }
  }
}

}  // namespace pharos::object_store
