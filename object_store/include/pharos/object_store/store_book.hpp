#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/extents.hpp>
#include <pharos/object_store/object_ledger.hpp>
#include <pharos/object_store/slab.hpp>

namespace pharos::object_store {

/// The node's side of the store: which process has leased which slab, what has memory, and what happens to slabs,
/// objects and pins when a process ends. A slab is a stretch of the store that one process may write to; see Slab. Pure
/// except for the ledger, which processes change at any time and whose memory must outlive this object. Owned by
/// NodeStore, and used on the node's strand.
///
/// Addresses are not memory: the store has many more addresses than memory, so that an object keeps its address while
/// it is out on disk. All leased slots have memory, except those whose state is out or gone. Free slabs keep their
/// memory for a while, to be leased again.
///
/// Fails with kExhausted, and with numbers in the message, if there is no room. A request of a process that makes no
/// sense is refused (lease(): kInvalidArgument) or ignored (give_back()) and changes nothing.
class StoreBook {
 public:
  /// The ledger determines how many slots there are. `addresses` is the length of the file of objects, and at least
  /// `capacity` (PHAROS_CHECK).
  StoreBook(const ObjectLedger& ledger, ByteCount capacity, ByteCount addresses);

  /// Registers a process that will use the store, and returns the number of its table. Returns kAlreadyExists if the
  /// process has a table already, and kExhausted if all tables are taken.
  Result<std::uint32_t> open(CallerId process);
  Result<Slab> lease(std::uint32_t table, std::uint64_t slot_bytes);
  /// The process will not write to the slab any more. Objects in it stay until they end.
  void give_back(std::uint32_t table, std::uint32_t first_slot);
  /// A result whose maker has ended and whose heir has not taken it over yet.
  struct Unclaimed {
    Place place;
    CallerId maker;
  };
  /// Handles the end of a process: its pins are cleared, the objects that it held are let go, and the slots that it was
  /// writing are freed. Results of which the heirs may still be told are not let go; they are returned and must be
  /// passed to end_unclaimed() some time later. Has no effect for a table that is not taken.
  [[nodiscard]] std::vector<Unclaimed> process_ended(std::uint32_t table);
  /// Lets go of those results that their heirs have not taken over meanwhile.
  void end_unclaimed(const std::vector<Unclaimed>& results);
  /// Returns whether there are results that their heirs have not taken over yet.
  bool has_unclaimed() const;
  /// Takes back slabs that no process leases and whose objects have all ended. Returns true if there were any.
  bool reclaim();
  /// Returns whether such slabs with objects remain. Nothing reports when these objects end, so the node must call
  /// reclaim() from time to time.
  bool waits_for_readers() const { return orphans_ != 0; }

  // ---- Memory

  /// A free slab, or the slab of an object that is out and that will be brought to memory of the slab.
  struct Idle {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint64_t memory;
    std::uint64_t slot_bytes;  ///< the size of its slots
    std::uint64_t provided;    ///< the bytes of each slot that have storage, at least
    /// The object that is out and will be brought to this memory.
    std::optional<Place> waiting;
  };
  /// Removes the slabs that have been free for longest, until they have `bytes` of memory. Their memory is to be given
  /// back to the system. It counts as used until released() is called for each.
  std::vector<Idle> take_idle(std::uint64_t bytes);
  void released(const Idle& idle);
  std::uint64_t idle_bytes() const { return idle_bytes_; }

  ByteCount capacity() const { return ByteCount{capacity_}; }
  /// The memory that is in use, kept for reuse, or being given back to the system.
  std::uint64_t memory() const { return memory_; }
  /// The memory of leased slabs: of objects and of free slots.
  std::uint64_t lent_memory() const { return memory_ - idle_bytes_ - releasing_bytes_; }

  // ---- Objects that are out on disk

  /// An object, and the memory of its slot.
  struct Body {
    Location location;
    std::uint64_t offset;
    std::uint64_t size;
    std::uint64_t slot_bytes;
  };
  /// Marks objects as leaving until their slots have `bytes` of memory, and returns them: objects that were not read
  /// for longest come first. Objects that a process reads are left out, and so are those in `busy`: they are still
  /// being written to disk or taken out from an earlier call, although readers may have called them back.
  std::vector<Body> choose_leaving(std::uint64_t bytes, const std::set<Place>& busy = {});
  /// The object is out, and its memory was given back to the system. A place in no slab ends the process.
  void left(const Place& place);
  /// Begins to bring back an object to the place where it was. Returns kExhausted if there is no room, and kNotFound if
  /// the object is not out.
  Result<Body> begin_return(const Place& place);
  /// The object could not be brought back, because the system had no memory or the disk could not be read.
  void return_failed(const Place& place);
  /// Creates a slot for an object of another node. The object is out at first. Its slot uses the memory of a free slab
  /// of the same size, if there is one. The maker is recorded as the holder; the caller must let the object go once a
  /// pin keeps it. Returns kExhausted if there are no more addresses or slots.
  Result<Place> lend_outside(const ObjectId& id, std::uint64_t size, std::string_view label);
  /// Ends the objects that are out, that were let go and that have no pins. Returns their places.
  std::vector<Place> end_outside();
  bool is_outside(const Place& place) const;

  CallerId process_of(std::uint32_t table) const;
  bool has_process(CallerId process) const;
  /// One object as listings show it, and the processes that have a part in it.
  struct Seen {
    ObjectId id;
    std::uint64_t size = 0;
    std::string label{};
    SlotState state{};
    CallerId holder{};  ///< unset if the object was let go
    std::vector<CallerId> kept_by{};
    std::vector<CallerId> read_by{};
  };
  std::vector<Seen> look() const;
  struct Census {
    std::size_t processes = 0;
    std::size_t slabs = 0;
    std::size_t objects = 0;  ///< sealed or being written
    std::size_t outside = 0;  ///< those that are out on disk
  };
  Census census() const;

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  struct Lent {
    Slab slab;
    std::uint32_t table;     // kNobody: the slab is an orphan, which no process leases
    std::uint32_t away = 0;  // slots without memory
  };

  Error full(std::uint64_t bytes) const;
  bool has_room(std::uint64_t more) const { return more <= capacity_ && memory_ <= capacity_ - more; }
  Body body_of(const Place& place, std::uint64_t slot_bytes) const;
  std::optional<Idle> take_memory(const Slab& slab);
  bool ended(const Slab& slab) const;
  std::optional<Idle> take_warm(const Slab& slab);
  void note_idle(const Lent& lent);
  Lent& lent_with(std::uint32_t slot);

  ObjectLedger ledger_;
  const std::uint64_t capacity_;
  Extents addresses_;  // of slabs, in units of kSlabUnit
  Extents slots_;
  std::map<std::uint32_t, Lent> slabs_;  // by first slot
  std::vector<CallerId> processes_;      // by table; unset where the table is free
  std::size_t orphans_ = 0;
  std::uint64_t memory_ = 0;
  std::deque<Idle> idle_;  // the most recently used last
  std::uint64_t idle_bytes_ = 0;
  std::uint64_t releasing_bytes_ = 0;
  std::map<std::uint32_t, Place> outside_;  // objects that are out, by slot
  // Slots of `outside_` that have memory nevertheless, which counts as idle.
  std::set<std::uint32_t> warm_;
};

}  // namespace pharos::object_store
