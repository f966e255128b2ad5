#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/extents.hpp>
#include <pharos/object_store/ledger.hpp>
#include <pharos/object_store/slab.hpp>

namespace pharos::object_store {

/// The node's side of the store: which process has which slab, and what becomes of slabs, objects and pins when one
/// ends. Pure but for the ledger, which processes change meanwhile. Owned by the node; one thread.
/// Failure: kExhausted, with numbers. What a process says that cannot be so is refused and changes nothing.
class Lender {
 public:
  /// Slots are numbered by the ledger; their memory is a line of so many bytes, of whole segments.
  Lender(const Ledger& ledger, ByteCount capacity);

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
  /// A process is no more: so are its pins, the objects that it held, and what it was writing; but for results that
  /// others may hear of yet, which end by end_unclaimed().
  [[nodiscard]] std::vector<Unclaimed> process_ended(std::uint32_t table);
  void end_unclaimed(const std::vector<Unclaimed>& results);
  /// Takes slabs back that nobody has leased and whose last object or pin is gone. True if there was one.
  bool reclaim();
  /// There are such slabs, of which nobody tells when they become free.
  bool waits_for_readers() const { return orphans_ != 0; }

  /// A segment that has been used and is all free, to be given back to the system. Each is named once.
  std::optional<std::uint64_t> take_idle_segment();

  CallerId process_of(std::uint32_t table) const;
  struct Census {
    std::size_t processes = 0;
    std::size_t slabs = 0;
    std::uint64_t leased_bytes = 0;  ///< of all slabs
    std::size_t objects = 0;         ///< sealed or being written
  };
  Census census() const;

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  struct Lent {
    Slab slab;
    std::uint32_t table;  // kNobody: an orphan
  };

  Error full(std::uint64_t bytes) const;
  bool in_use(const Slab& slab) const;

  Ledger ledger_;
  Extents memory_;
  Extents slots_;
  std::map<std::uint32_t, Lent> slabs_;  // by first slot
  std::vector<CallerId> processes_;      // by table; none where it is free
  std::vector<bool> touched_;            // segments
  std::size_t orphans_ = 0;
};

}  // namespace pharos::object_store
