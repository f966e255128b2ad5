#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/collective/operation.hpp>

#include "shared/bell.hpp"
#include "shared/letter_lines.hpp"
#include "shared/lines.hpp"
#include "shared/neighbours.hpp"
#include "shared/shared_failure.hpp"

namespace pharos::ml {

/// The meeting of the ranks of one machine: memory that all of them have mapped, in which they tell each other how far
/// they have come, wait for each other, and fail together. Each rank's SharedBackend owns a Meeting over that memory,
/// which outlives the Meeting. The destructor tells the other ranks nothing: the owner calls leave() first. One thread
/// at a time, except where a function says more.
///
/// The operations of all ranks are a sequence of rounds, numbered from 1. A round has three phases, and each rank
/// publishes the phase that it has reached. Messages between two ranks go as letters (see LetterLines).
///
/// 1. A line is one cache line, to which only one rank writes. A line of a round has the operation that the rank has
///    begun, and the place of its data.
/// 2. A line is used again by the round `kSlots` later. A rank enters that round when all ranks have left this one.
/// 3. The first rank that fails writes down why, and all other ranks fail with the same error. So each error that a
/// function here returns is the failure of all ranks (see SharedFailure).
class Meeting {
 public:
  static constexpr std::size_t kSlots = 64;
  static constexpr std::uint32_t kRanksMax = 64;

  enum class Phase : std::uint8_t {
    kEntered,  ///< The rank's data can be read.
    kReduced,  ///< The rank has done its part of the work.
    kLeft,     ///< The rank does not read other ranks' data any more.
  };

  struct Shared;
  static std::size_t bytes_for(std::uint32_t ranks);

  /// `memory` has bytes_for(ranks) bytes, zeros at first, and outlives the Meeting. `names` has the ranks' numbers in
  /// error messages; empty if these are the numbers here. PHAROS_CHECK: `rank` is below `ranks`, which is at most
  /// kRanksMax.
  Meeting(std::byte* memory, std::uint32_t rank, std::uint32_t ranks, std::vector<std::uint32_t> names = {});
  Meeting(Meeting&&) = delete;
  ~Meeting();

  std::uint32_t rank() const { return neighbours_.rank(); }
  std::uint32_t ranks() const { return neighbours_.ranks(); }
  const Neighbours& neighbours() const { return neighbours_; }
  LetterLines& letters() { return letters_; }
  const LetterLines& letters() const { return letters_; }

  /// Publishes that this rank has come, and waits until all ranks have come. `processes` has their process ids, and the
  /// death of any of them is noticed during the wait. If it is empty, a process is watched only once its rank has come.
  /// kActorDied if a rank has died or left, kDeadlineExceeded at the deadline.
  Result<void> begin(TimePoint deadline, std::span<const std::int32_t> processes = {});

  void enter(std::uint64_t round, const Said& said);
  void reach(std::uint64_t round, Phase phase);
  bool all_have(std::uint64_t round, Phase phase) const;
  /// Returns the data of `rank` for the round. Valid once `rank` has entered the round, until this rank leaves it.
  Said said(std::uint64_t round, std::uint32_t rank) const;
  /// Fails all ranks unless all of them have entered the round with the same operation and the same place of their
  /// data. Called once all ranks have entered it. The error is kInvalidArgument.
  Result<void> check_agreement(std::uint64_t round);

  /// Publishes that this rank will not enter any further round: ranks that wait for it fail with kActorDied.
  void leave();

  /// A condition that a rank waits for.
  struct Awaited {
    enum class What : std::uint8_t {
      kPhase,   ///< All ranks have reached `phase` of the round `number`.
      kLetter,  ///< The letter `number` from `rank` has been posted.
      kTaken,   ///< `rank` has taken this rank's letter `number`, so that its line can be used again.
      kCome     ///< `rank` has come.
    };
    What what = What::kPhase;
    std::uint64_t number = 0;  ///< 0: there is nothing to wait for.
    Phase phase = Phase::kLeft;
    std::uint32_t rank = 0;
    Operation operation{};  ///< The operation of a letter, for error messages.
  };
  bool is_there(const Awaited& awaited) const { return !missing(awaited, rank()); }
  /// Returns when one of the conditions is true. Spins for some microseconds, unless there are more ranks than CPUs,
  /// and then sleeps. Fails if a rank has failed, if a rank for which a condition waits has died or left, or at the
  /// deadline; the deadline's error (kDeadlineExceeded) names the rank that holds up the first condition. There is at
  /// least one condition. Each failure is published to all ranks.
  Result<void> wait(std::span<const Awaited> any, TimePoint deadline);
  /// The same, but also returns when `or_else` is true. Whatever makes it true calls ring(). Returns false at `when`,
  /// without a failure; it fails like wait() for all other reasons.
  Result<bool> wait_until(std::span<const Awaited> any, const std::function<bool()>& or_else, TimePoint when);
  /// Wakes all ranks that sleep, so that they check their conditions. On any thread.
  void ring() { bell_.ring(); }
  /// Returns the name of a rank for which the condition waits; nullopt if the condition is true. On any thread.
  std::optional<std::uint32_t> who_is_missing(const Awaited& awaited) const;
  /// The same for the condition for which this rank's thread sleeps; nullopt if it does not sleep. On any thread.
  std::optional<std::uint32_t> whom_it_sleeps_for() const { return who_is_missing(awaited_by(rank())); }

  /// Makes `why` the failure of all ranks, unless a rank has failed before. Returns the failure that counts.
  Error fail(const Error& why);
  /// Fails if a rank has failed or died. A rank that has left is no failure here. On any thread once begin() has
  /// returned.
  Result<void> check();
  /// Returns the failure that counts; nullopt if no rank has failed.
  std::optional<Error> failure() const { return failure_.read(); }

  /// Where other ranks find memory of a rank: by a file descriptor if they are other processes, by an address in the
  /// same process.
  struct MemoryHandle {
    std::int32_t pid = 0;
    std::int32_t descriptor = -1;
    std::uint64_t address = 0;
  };
  /// Each rank publishes its own memory, and then maps the memory of the others.
  void publish_memory(const MemoryHandle& handle);
  MemoryHandle memory_of(std::uint32_t rank) const;

 private:
  std::string describe(const Awaited& awaited) const;
  bool is_gone(std::uint32_t rank) const;
  bool has(const Awaited& awaited, std::uint32_t rank, std::uint32_t waiting) const;
  std::optional<std::uint32_t> missing(const Awaited& awaited, std::uint32_t waiting) const;
  void say_awaited(const Awaited& awaited);
  Awaited awaited_by(std::uint32_t rank) const;
  void blame(const Awaited& awaited);
  Result<void> come(std::uint32_t rank, TimePoint deadline);
  Result<void> watch(std::uint32_t rank, std::int32_t process);
  Result<void> look_after(const Awaited& awaited);

  Shared& shared_;
  Neighbours neighbours_;
  Bell bell_;
  SharedFailure failure_;
  LetterLines letters_;
};

}  // namespace pharos::ml
