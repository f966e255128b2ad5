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
#include <pharos/object_store/ledger.hpp>
#include <pharos/object_store/slab.hpp>

namespace pharos::object_store {

/// The node's side of the store: which process has which slab, what has memory, and what becomes of slabs, objects and
/// pins when a process ends. Pure but for the ledger, which processes change meanwhile. Owned by the node; one thread.
///
/// Addresses are not memory: there are many more of them than the store may use memory, so that an object that is out
/// on disk keeps its place. What is lent has memory, except for slots that are out or gone. Slabs that are free keep
/// theirs for a while, to be lent again.
///
/// Failure: kExhausted, with numbers. What a process says that cannot be so is refused and changes nothing.
class Lender {
 public:
  /// Slots are numbered by the ledger; the addresses are a line of so many bytes.
  Lender(const Ledger& ledger, ByteCount capacity, ByteCount addresses);

  /// A process that will use the store: the number of its table. One table a process.
  Result<std::uint32_t> open(CallerId process);
  Result<Slab> lease(std::uint32_t table, std::uint64_t slot_bytes);
  /// It will not write there any more. Objects of others stay until they end.
  void give_back(std::uint32_t table, std::uint32_t first_slot);
  /// A result whose heir has not taken it, though its maker is no more.
  struct Unclaimed {
    Place place;
    CallerId maker;
  };
  /// A process is no more: so are its pins, its share in the objects that it held, and what it was writing; but for
  /// results that others may hear of yet, which are let go by end_unclaimed().
  [[nodiscard]] std::vector<Unclaimed> process_ended(std::uint32_t table);
  void end_unclaimed(const std::vector<Unclaimed>& results);
  /// Takes slabs back that nobody has leased and whose last object is gone. True if there was one.
  bool reclaim();
  /// There are such slabs, of which nobody tells when they become free.
  bool waits_for_readers() const { return orphans_ != 0; }

  // ---- Memory

  /// A slab that is free, or waits for its object, and what it has of memory.
  struct Idle {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint64_t memory;
    std::uint64_t slot_bytes;      ///< of its slots
    std::uint64_t provided;        ///< of each of these, at least
    std::optional<Place> waiting;  ///< the object that is to be brought there
  };
  /// Those that have been free for longest, until they have so many bytes: their memory is to be given back to the
  /// system, and counts until released() says that it was.
  std::vector<Idle> take_idle(std::uint64_t bytes);
  void released(const Idle& idle);
  std::uint64_t idle_bytes() const { return idle_bytes_; }

  ByteCount capacity() const { return ByteCount{capacity_}; }
  /// That is in use or kept, released or not.
  std::uint64_t memory() const { return memory_; }
  /// That objects and free slots take, of what is lent.
  std::uint64_t lent_memory() const { return memory_ - idle_bytes_ - releasing_bytes_; }

  // ---- Objects that are out on disk

  /// An object and its slot's memory.
  struct Body {
    Location location;
    std::uint64_t offset;
    std::uint64_t size;
    std::uint64_t slot_bytes;
  };
  /// Objects that are leaving now, those first that were not read for longest, until it is so many bytes of memory;
  /// none that anybody reads, and none of `busy`: what was begun with these has not ended, though they were called
  /// back.
  std::vector<Body> choose_leaving(std::uint64_t bytes, const std::set<Place>& busy = {});
  /// It is out, and its memory was given back to the system.
  void left(const Place& place);
  /// One that is out is to come back, to where it was before. kExhausted: there is no room; kNotFound: it is not out.
  Result<Body> begin_return(const Place& place);
  /// The system could give it no memory, or the disk no bytes.
  void return_failed(const Place& place);
  /// A place for an object of another node, which is out at first, with idle memory if there is some of that size. It
  /// is its maker's, and to be let go. kExhausted: there are no more addresses.
  Result<Place> lend_outside(const ObjectId& id, std::uint64_t size, std::string_view label);
  /// Objects that are out end, if nobody has them any more; which.
  std::vector<Place> end_outside();
  bool is_outside(const Place& place) const;

  CallerId process_of(std::uint32_t table) const;
  bool has_process(CallerId process) const;
  /// For people: an object, and who has a part in it.
  struct Seen {
    ObjectId id;
    std::uint64_t size = 0;
    std::string label{};
    SlotState state{};
    CallerId holder{};  ///< none: it is let go
    std::vector<CallerId> kept_by{};
    std::vector<CallerId> read_by{};
  };
  std::vector<Seen> look() const;
  struct Census {
    std::size_t processes = 0;
    std::size_t slabs = 0;
    std::size_t objects = 0;  ///< sealed or being written
    std::size_t outside = 0;  ///< of these: out on disk
  };
  Census census() const;

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  struct Lent {
    Slab slab;
    std::uint32_t table;     // kNobody: an orphan
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

  Ledger ledger_;
  const std::uint64_t capacity_;
  Extents addresses_;  // of slabs, in kSlabUnits
  Extents slots_;
  std::map<std::uint32_t, Lent> slabs_;  // by first slot
  std::vector<CallerId> processes_;      // by table; none where it is free
  std::size_t orphans_ = 0;
  std::uint64_t memory_ = 0;
  std::deque<Idle> idle_;  // the last one was in use last
  std::uint64_t idle_bytes_ = 0;
  std::uint64_t releasing_bytes_ = 0;
  std::map<std::uint32_t, Place> outside_;  // by slot
  std::set<std::uint32_t> warm_;            // of these: with memory, which counts as idle
};

}  // namespace pharos::object_store
