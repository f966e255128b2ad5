#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/location.hpp>

/// What all processes of a node know of its objects: the protocol by which memory is written, read and used again
/// although any of them may be killed at any instant. It lies in shared memory and is nothing but atomic words; what an
/// object holds lies elsewhere.
///
/// A slot is a place for one object at a time. Its word says in which state it is, and its generation, which grows
/// whenever an object ends. Only who has leased the slot's slab begins an object there:
///
///   free -> writing    by the leaseholder, once no pin names the slot
///   writing -> sealed  by the leaseholder: the object is complete, and never changes again
///   sealed -> free     by the object's holder, who wants it no more, or by the node, when the holder is dead
///   writing -> free    by the leaseholder, or by the node, when the leaseholder is dead
///
/// A pin is a word in a table that one process alone writes: slot and generation of an object that it reads. To pin, it
/// writes the word, then looks whether the slot is sealed and of that generation. If so it may read until it clears the
/// word; if not it clears the word at once. To use a slot again, whoever wants to looks through all tables after the
/// slot has become free.
///
///   1. A slot that is written to is pinned by nobody: a pin whose look came before the slot became free is seen by the
///      look through the tables, and one whose look came after finds another generation. Both looks and both writes are
///      sequentially consistent.
///   2. Words of the dead mean nothing to the living: the node clears their table and frees what they wrote or held.
///   3. A generation never returns, so an old location is refused and never reads another object.
///
/// The holder of an object is the process whose end is the object's end, at first its maker. A result is made for an
/// heir, who becomes the holder by taking it. If the heir dies before, it ends; if its maker does, word of it may be on
/// its way still, and the node ends it some time after. Whoever changes the holder's word may do with the object what
/// the holder may: so heir and node never both do.
namespace pharos::object_store {

enum class SlotState : std::uint8_t { kFree = 0, kWriting = 1, kSealed = 2 };

struct SlotWord {
  std::uint32_t generation = 0;
  SlotState state = SlotState::kFree;
};

struct alignas(64) SlotHeader {
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> holder;  // CallerId
  // Of the object: written by its maker before it is sealed.
  std::atomic<std::uint64_t> heir;  // CallerId, or 0
  std::atomic<std::uint64_t> maker;
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint64_t> size;
  // Of the slot: written by the node before it is leased.
  std::atomic<std::uint64_t> offset;
};
static_assert(sizeof(SlotHeader) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::uint32_t kPinsMax = 4088;  // of one process

struct alignas(64) PinTable {
  std::atomic<std::uint32_t> used;  // pins from here on have never been set
  alignas(64) std::array<std::atomic<std::uint64_t>, kPinsMax> pins;
};
static_assert(sizeof(PinTable) == 32768);

/// The shared memory, as this process sees it. Cheap to copy; does not own it. Any thread.
class Ledger {
 public:
  static std::size_t bytes_for(std::uint32_t slots, std::uint32_t tables);
  /// Writes an empty ledger into zeroed memory of at least bytes_for(slots, tables). The node's, once.
  static Ledger format(std::span<std::byte> memory, std::uint32_t slots, std::uint32_t tables);
  /// Looks at one that another process has made.
  static Result<Ledger> attach(std::span<std::byte> memory);

  std::uint32_t slots() const { return slots_; }
  std::uint32_t tables() const { return tables_; }
  SlotHeader& slot(std::uint32_t number) const;
  SlotWord word_of(std::uint32_t slot) const;

  // The leaseholder's.

  /// Whether some process has a pin on the slot, of whatever generation.
  bool pinned(std::uint32_t slot) const;
  /// Begins an object in a slot that is free and not pinned.
  Place begin(std::uint32_t slot, const ObjectId& id, std::uint64_t size, CallerId heir) const;
  void seal(const Place& place) const;
  /// Gives up an object that was begun and not sealed.
  void abandon(const Place& place) const;

  // The holder's.

  /// False when it has ended already.
  bool retire(const Place& place) const;
  /// From the maker to the heir: false when the object has ended, or been taken.
  bool take_over(const Location& location, CallerId heir) const;

  // A reader's. `table` and `pin` are its own.

  /// What a reader may read, once it has a pin.
  struct Pinned {
    std::uint64_t offset;
    std::uint64_t size;
  };
  /// None, and no pin: the object has ended.
  std::optional<Pinned> pin(std::uint32_t table, std::uint32_t pin, const Location& location) const;
  void unpin(std::uint32_t table, std::uint32_t pin) const;

  // The node's.

  /// The holder is dead: from here on nobody has it, and it may be retired. False when another has it, or took it now.
  bool disown(const Place& place, CallerId holder) const;
  void open_table(std::uint32_t table) const;
  /// Of a process that is no more.
  void clear_table(std::uint32_t table) const;

  /// Where in the memory these lie, so that they can be given storage before they are used.
  struct Stretch {
    std::size_t begin;
    std::size_t bytes;
  };
  Stretch stretch_of_slots(std::uint32_t first, std::uint32_t count) const;
  Stretch stretch_of_table(std::uint32_t table) const;

 private:
  struct Head;
  Ledger(std::span<std::byte> memory, std::uint32_t slots, std::uint32_t tables);
  PinTable& table(std::uint32_t number) const;

  Head* head_;
  SlotHeader* first_slot_;
  PinTable* first_table_;
  std::uint32_t slots_;
  std::uint32_t tables_;
};

}  // namespace pharos::object_store
