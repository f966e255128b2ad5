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

/// What all processes of a node know of its objects: the protocol by which memory is written, read and used again
/// although any of them may be killed at any instant. It lies in shared memory and is nothing but atomic words; what an
/// object holds lies elsewhere.
///
/// A slot is a place for one object at a time. Its word says in which state it is, its generation, which grows whenever
/// an object ends, and whether the object is let go: nobody holds it any more.
///
///   free -> writing     by the leaseholder of the slot's slab
///   writing -> sealed   by the leaseholder: the object is complete, and never changes again
///   writing -> free     by the leaseholder, or by the node, when the leaseholder is dead
///   sealed -> leaving   by the node, which writes it to disk then
///   leaving -> sealed   by whoever wants to read it, or by the node, when the disk does not take it
///   leaving -> out      by the node: it is on disk, and has no memory here
///   out -> sealed       by the node, which has brought it back
///
/// An object is let go by its holder, or by the node, when the holder is dead. It ends once it is let go and nobody has
/// a pin on it, by the leaseholder or by the node; one that is out by the node alone:
///
///   sealed, leaving -> free    the leaseholder may use the slot again
///   out -> gone                the slot has no memory, and is used again when its slab has been lent anew
///
/// A pin is a word in a table that one process alone writes: slot and generation of an object, and whether the process
/// keeps it or also reads it. To pin, it writes the word, then looks at the slot's: is it of that generation? If the
/// object is let go, it also counts itself there, or looks again if the word has changed meanwhile. If it reads, it
/// calls the object back from leaving, and of one that is out it asks the node for its memory, with the pin in place.
/// To end an object, whoever may looks at the slot's word, then through all tables, and changes exactly that word.
///
///   1. An object that somebody has pinned does not end. A pin that was there when the object was let go is seen by the
///      look through the tables; one that came later has changed the word if it was in time, and is refused if not.
///   2. An object that somebody reads stays in memory: who makes it leave looks through the tables once it is leaving,
///      and who comes later calls it back.
///   3. Words of the dead mean nothing to the living: the node clears their table, lets go of what they held, and frees
///      what they were writing.
///   4. A generation never returns, so an old location is refused and never reads another object.
///
/// All of these looks and changes are sequentially consistent.
///
/// The holder of an object is the process whose end lets it go, at first its maker. A result is made for an heir, who
/// becomes the holder by taking it. If the heir dies before, it is let go; if its maker does, word of it may be on its
/// way still, and the node lets it go some time after. Whoever changes the holder's word may do with the object what
/// the holder may: so heir and node never both do.
namespace pharos::object_store {

enum class SlotState : std::uint8_t { kFree = 0, kWriting = 1, kSealed = 2, kLeaving = 3, kOut = 4, kGone = 5 };

struct SlotWord {
  std::uint32_t generation = 0;
  SlotState state = SlotState::kFree;
  bool let_go = false;
  std::uint32_t visits = 0;  // how often it was pinned since it was let go; wraps at kVisitsEnd

  /// There is an object, complete.
  bool has_object() const {
    return state == SlotState::kSealed || state == SlotState::kLeaving || state == SlotState::kOut;
  }
};

struct alignas(64) SlotHeader {
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> holder;  // CallerId
  // Of the object: written by its maker before it is sealed.
  std::atomic<std::uint64_t> heir;  // CallerId, or 0
  std::atomic<std::uint64_t> maker;
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint64_t> size;
  std::atomic<std::uint32_t> used;  // when it was last read, see Ledger::advance()
  // Of the slot: written by the node before it is leased; the pages also by the leaseholder.
  std::atomic<std::uint32_t> pages;  // that have storage, from its beginning; perhaps more
  std::atomic<std::uint64_t> offset;
};
static_assert(sizeof(SlotHeader) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// For people: where an object comes from.
struct alignas(64) SlotLabel {
  std::array<std::atomic<std::uint64_t>, 8> words;
};

inline constexpr std::uint32_t kPinsMax = 65'528;  // of one process

enum class PinKind : std::uint8_t { kKeep, kRead };

struct alignas(64) PinTable {
  std::atomic<std::uint32_t> used;  // pins from here on have never been set
  alignas(64) std::array<std::atomic<std::uint64_t>, kPinsMax> pins;
};
static_assert(sizeof(PinTable) == 524'288);

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
  /// In memory or out on disk.
  bool has(const Location& location) const;

  // The leaseholder's.

  /// Whether the slot is free now: it was, or its object has ended just now. False: there is one still, or no memory.
  bool end(std::uint32_t slot) const;
  /// Begins an object in a slot that is free.
  Place begin(std::uint32_t slot, const ObjectId& id, std::uint64_t size, CallerId heir,
              std::string_view label = {}) const;
  /// How many bytes of the slot, from its beginning, have storage for certain. Also the node's, when it gives or takes
  /// that.
  std::uint64_t provided(std::uint32_t slot) const;
  void note_provided(std::uint32_t slot, std::uint64_t bytes) const;
  void seal(const Place& place) const;
  /// Gives up an object that was begun and not sealed.
  void abandon(const Place& place) const;

  // The holder's.

  void let_go(const Place& place) const;
  /// From the maker to the heir: false when the object has ended, or been taken.
  bool take_over(const Location& location, CallerId heir) const;

  // Of whoever has a pin, or wants one. `table` and `pin` are its own.

  struct Pinned {
    std::uint64_t offset;
    std::uint64_t size;
    bool in_memory;  ///< if it is to be read: false when the node must bring it back first
  };
  /// Also from one kind to the other. None, and no pin: the object has ended.
  std::optional<Pinned> pin(std::uint32_t table, std::uint32_t pin, PinKind kind, const Location& location) const;
  void unpin(std::uint32_t table, std::uint32_t pin) const;

  // The node's.

  /// The holder is dead: from here on nobody has it, and it may be let go. False when another has it, or took it now.
  bool disown(const Place& place, CallerId holder) const;
  void open_table(std::uint32_t table) const;
  /// Of a process that is no more.
  void clear_table(std::uint32_t table) const;
  /// Calls it with each pin that is set: its table, its slot, its kind. The slot's object may have ended.
  template <class F>
  void for_each_pin(F&& function) const;
  std::string label_of(std::uint32_t slot) const;

  /// Sealed objects leave, or not: false when it is in another state by now.
  bool leave(const Place& place) const { return change(place, SlotState::kSealed, SlotState::kLeaving); }
  bool stay(const Place& place) const { return change(place, SlotState::kLeaving, SlotState::kSealed); }
  bool note_out(const Place& place) const { return change(place, SlotState::kLeaving, SlotState::kOut); }
  bool note_back(const Place& place) const { return change(place, SlotState::kOut, SlotState::kSealed); }
  /// Of one that is out: whether it has ended now, and the slot is gone.
  bool end_outside(const Place& place) const;
  /// The slot is free or gone, and lies there from now on.
  void lend(std::uint32_t slot, std::uint64_t offset, std::uint64_t provided) const;

  /// What `used` is set to: counts what the node does, so that what was used last is known.
  void advance() const;

  /// Where in the memory these lie, so that they can be given storage before they are used.
  struct Stretch {
    std::size_t begin;
    std::size_t bytes;
  };
  Stretch stretch_of_slots(std::uint32_t first, std::uint32_t count) const;
  Stretch stretch_of_labels(std::uint32_t first, std::uint32_t count) const;
  /// Of a table, from its beginning.
  Stretch stretch_of_pins(std::uint32_t table, std::uint32_t pins) const;

 private:
  struct Head;
  Ledger(std::span<std::byte> memory, std::uint32_t slots, std::uint32_t tables);
  PinTable& table(std::uint32_t number) const;
  std::uint32_t tables_used() const;
  bool pinned(std::uint32_t slot) const;
  bool change(const Place& place, SlotState from, SlotState to) const;
  bool end_as(std::uint32_t slot, SlotState end) const;

  Head* head_;
  SlotHeader* first_slot_;
  SlotLabel* first_label_;
  PinTable* first_table_;
  std::uint32_t slots_;
  std::uint32_t tables_;
};

namespace detail {

inline constexpr std::uint64_t kReads = std::uint64_t{1} << 63;

// Never 0, which is no pin.
constexpr std::uint64_t pin_word(const Place& place, PinKind kind) {
  return (kind == PinKind::kRead ? kReads : 0) | (std::uint64_t{place.slot} + 1) << 32 | place.generation;
}
constexpr std::uint32_t slot_of_pin(std::uint64_t word) {
  return static_cast<std::uint32_t>((word & ~kReads) >> 32) - 1;
}

}  // namespace detail

template <class F>
void Ledger::for_each_pin(F&& function) const {
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
