#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

#include "operation.hpp"

namespace pharos::ml {

/// Where the ranks of one machine meet: memory that all of them have mapped. What they do together is a row of rounds,
/// numbered from 1; a round has three phases, and each rank says which one it has reached.
///
/// 1. A rank writes its own lines alone. A line says what it thinks the round is, and where its data lies.
/// 2. A line is used again by the round `kSlots` later, which a rank begins when all have left this one.
/// 3. From each rank to each other one there are letters, numbered from 1; a letter's line is used again by the one
///    `kLetters` later, when this one has been taken.
/// 4. Who fails first says why; everybody else fails with that.
class Meeting {
 public:
  static constexpr std::size_t kSlots = 64;
  static constexpr std::size_t kLetters = 4;
  static constexpr std::uint32_t kRanksMax = 64;
  static constexpr std::size_t kSmallBytes = 16;  ///< of data that travel in a line

  enum class Phase : std::uint8_t {
    kEntered,  ///< its data is there
    kReduced,  ///< its part of the work is done
    kLeft,     ///< it will not look at others' data any more
  };

  /// What a rank says of a round.
  struct Said {
    Operation operation{};
    std::uint32_t window = 0;  ///< where its data lies; 0: in its staging room
    std::uint64_t offset = 0;
    std::array<std::byte, kSmallBytes> small{};
  };

  struct Shared;
  static std::size_t bytes_for(std::uint32_t ranks);

  /// `memory`: zeros at first, of bytes_for(ranks). Each rank has a Meeting of its own in it.
  /// `names`: what errors call them; none: by their numbers here.
  Meeting(std::byte* memory, std::uint32_t rank, std::uint32_t ranks, std::vector<std::uint32_t> names = {});
  Meeting(Meeting&&) = delete;
  ~Meeting();

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return ranks_; }
  std::uint32_t name(std::uint32_t rank) const { return names_.empty() ? rank : names_[rank]; }

  /// Says that this rank has come, and waits for the others to. Their processes are watched from then on; from now on,
  /// if they are known already.
  Result<void> begin(TimePoint deadline, std::span<const std::int32_t> processes = {});

  void enter(std::uint64_t round, const Said& said);
  void reach(std::uint64_t round, Phase phase);
  bool all_have(std::uint64_t round, Phase phase) const;
  /// Of a rank that has entered it, and has not been left behind by kSlots.
  Said said(std::uint64_t round, std::uint32_t rank) const;

  /// This rank will not come to any round again: who waits for it fails.
  void leave();
  bool is_gone(std::uint32_t rank) const;
  /// Looks for so long.
  bool has_died(std::uint32_t rank, Duration patience = {}) const;
  bool has(std::uint64_t round, Phase phase, std::uint32_t rank) const;

  void post(std::uint32_t to, std::uint64_t letter, const Said& said);
  Said posted(std::uint32_t from, std::uint64_t letter) const;
  void take(std::uint32_t from, std::uint64_t letter);

  /// What a rank cannot go on without.
  struct Awaited {
    enum class What : std::uint8_t { kPhase, kLetter, kRoom, kCome };
    What what = What::kPhase;    ///< that all have reached it; a letter of `rank`; that `rank` has taken one, or come
    std::uint64_t number = 0;    ///< of the round or letter; 0: nothing
    Phase phase = Phase::kLeft;  ///< of the round
    std::uint32_t rank = 0;
    Operation operation{};  ///< of a letter
  };
  bool is_there(const Awaited& awaited) const { return !missing(awaited); }
  /// Comes back when one of them is so: spins as long as that pays, then sleeps. Fails when a rank has failed, when one
  /// that is missing has died, or at the deadline, as the first one's; then it is this rank's failure, too.
  Result<void> wait(std::span<const Awaited> any, TimePoint deadline);
  /// The same, also when `or_else` is true, about which ring() tells. False: it is so late.
  Result<bool> wait_until(std::span<const Awaited> any, const std::function<bool()>& or_else, TimePoint when);
  void ring();
  /// By its name. On any thread.
  std::optional<std::uint32_t> who_is_missing(const Awaited& awaited) const;
  std::optional<std::uint32_t> whom_it_sleeps_for() const { return who_is_missing(awaited_by(rank_)); }

  /// For all of them, unless somebody was first. Returns what counts.
  Error fail(const Error& why);
  /// Fails if a rank has died.
  Result<void> check();
  /// What counts, if somebody has failed.
  std::optional<Error> failure() const;

  // How ranks find each other's memory. By number: each offers its own, then takes the others'.
  struct Offer {
    std::int32_t pid = 0;
    std::int32_t descriptor = -1;
    std::uint64_t address = 0;  ///< for ranks of one process
  };
  void offer(const Offer& offer);
  Offer offer_of(std::uint32_t rank) const;

 private:
  struct Peer;

  std::string describe(const Awaited& awaited) const;
  bool has(const Awaited& awaited, std::uint32_t rank) const { return has(awaited, rank, rank_); }
  bool has(const Awaited& awaited, std::uint32_t rank, std::uint32_t waiting) const;
  std::optional<std::uint32_t> missing(const Awaited& awaited) const { return missing(awaited, rank_); }
  std::optional<std::uint32_t> missing(const Awaited& awaited, std::uint32_t waiting) const;
  void say_awaited(const Awaited& awaited);
  Awaited awaited_by(std::uint32_t rank) const;
  void blame(const Awaited& awaited);
  Result<void> come(std::uint32_t rank, TimePoint deadline);
  Result<void> watch(std::uint32_t rank, std::int32_t process);
  Result<void> look_after(const Awaited& awaited);
  template <class F>
  bool spin(const F& is_so);

  Shared& shared_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const std::vector<std::uint32_t> names_;
  bool may_spin_ = false;
  Duration spin_time_;
  std::vector<Fd> processes_;  // of the others, which are not this one
};

}  // namespace pharos::ml
