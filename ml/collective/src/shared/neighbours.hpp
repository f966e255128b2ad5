#pragma once

#include <cstdint>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

namespace pharos::ml {

/// The ranks of one machine, and whether their processes live. The Meeting of each rank owns one; the destructor only
/// stops the watching. One thread calls watch(), before all others; the rest changes nothing, and any thread may call
/// it then.
class Neighbours {
 public:
  /// This rank is number `rank` of `ranks`. `names` has the ranks' numbers in error messages and in name(); empty if
  /// these are the numbers here.
  Neighbours(std::uint32_t rank, std::uint32_t ranks, std::vector<std::uint32_t> names);

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return ranks_; }
  std::uint32_t name(std::uint32_t rank) const { return names_.empty() ? rank : names_[rank]; }

  /// Watches the process of a rank from now on; does nothing if that is this process. kActorDied if it has ended, and
  /// else the error of errno.
  Result<void> watch(std::uint32_t rank, std::int32_t process);
  /// Returns whether the rank's process has ended. Waits up to `patience` for its end. False for ranks of this process,
  /// and for ranks that are not watched.
  bool has_died(std::uint32_t rank, Duration patience = {}) const;
  /// The error of a rank that has died before all ranks were connected.
  Error died_early(std::uint32_t rank) const;

 private:
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const std::vector<std::uint32_t> names_;
  std::vector<Fd> processes_;  // by rank: pidfds of the other processes; none for ranks of this process
};

}  // namespace pharos::ml
