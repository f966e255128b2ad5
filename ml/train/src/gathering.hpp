#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/ml/communicator.hpp>

#include "no_numbers.hpp"
#include "shards.hpp"
#include "watch.hpp"

namespace pharos::ml {

/// Parameters of units come from all ranks when an operator is about to work on them. Ranks that share memory, and keep
/// parameters as the module computes with them, have each unit once: all read it where each rank keeps its part of it,
/// and wait for each other alone. Otherwise either each unit has memory of its own, and they come once a step; or a few
/// rooms are used in turn.
class Gathering final : public Watch::Owner {
 public:
  /// Units that stay: all, or what belongs to no block alone.
  enum class Staying { kAll, kRest };

  Gathering(const Communicator& ranks, std::vector<ShardedUnit>& units, Staying staying);
  ~Gathering() override;

  /// Null: the unit has none of its own.
  std::byte* memory_of(std::size_t unit) const { return places_[unit].own; }
  /// When the units have been taken over: whoever touches them from now on has them.
  void begin();
  /// What ranks train changes, or has changed; or all that they keep. Nothing of it is read any more.
  void refresh(bool also_frozen = false);
  /// Before this rank changes what it keeps: others may be reading that. All ranks call it.
  void end_reading();
  /// In which units that stay are gathered, from now on, as all ranks have agreed.
  void set_order(std::span<const std::size_t> units) { order_.assign(units.begin(), units.end()); }
  /// Goes on with what is under way.
  void advance();

  /// What has failed in an operator.
  void check() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }
  /// Units in the order in which they were first touched; then the others.
  std::vector<std::size_t> order_of_touch() const;
  /// What has been touched in this step, in that order: a hash of all, and the first ones.
  std::uint64_t path_hash() const { return path_hash_; }
  const std::vector<std::uint32_t>& path() const { return path_; }
  /// All ranks read what each keeps where it is.
  bool reads_in_place() const { return reads_in_place_; }
  /// Of memory for what is gathered.
  std::size_t bytes() const;
  std::size_t gathers() const { return gathers_; }
  Duration waited() const { return waited_; }
  /// A step begins.
  void begin_counting();

  void touched(std::span<const std::uint32_t> numbers) noexcept override;

 private:
  static constexpr std::size_t kNever = static_cast<std::size_t>(-1);
  struct Room {
    Buffer<std::byte> memory;
    std::size_t holder = kNever;
  };
  struct Place {
    std::byte* own = nullptr;
    Room* room = nullptr;
    bool is_there = false;
    bool has_frozen = false;  // which stay as they are
    std::vector<Pending> coming{};
    std::uint64_t version = 0;  // of what this rank keeps, when that was gathered
    std::uint64_t used = 0;
    std::size_t turn = kNever;
  };
  enum class Growth { kNone, kAllowed };

  void take_memory();
  bool need(std::uint32_t unit, std::span<const std::uint32_t> beside);
  void bring(std::uint32_t unit, std::span<const std::uint32_t> beside);
  void touch(std::uint32_t unit);
  void meet();
  void begin_gather(std::size_t unit);
  std::uint64_t version_of(std::size_t unit) const;
  void finish(std::size_t unit);
  void fetch_next(std::size_t unit, std::span<const std::uint32_t> beside);
  bool find_room(std::size_t unit, std::span<const std::uint32_t> beside, Growth growth);
  void leave(std::size_t unit);
  void point(std::size_t unit, std::byte* memory);
  void fail(std::exception_ptr why);

  Communicator ranks_;
  std::vector<ShardedUnit>& units_;
  const Staying staying_;
  const bool reads_in_place_;
  bool is_read_ = false;                     // where all keep it, since the last refresh()
  std::vector<Place> places_;                // by unit
  std::vector<Buffer<std::byte>> memories_;  // of units that stay, or of all
  std::deque<Room> rooms_;
  std::size_t room_bytes_ = 0;
  std::optional<Watch> watch_;
  std::uint32_t last_ = static_cast<std::uint32_t>(-1);
  std::uint64_t clock_ = 0;
  std::vector<std::size_t> by_turn_;
  std::vector<std::size_t> order_;  // where units stay
  std::vector<std::uint32_t> path_;
  std::uint64_t path_hash_ = 0;
  std::size_t gathers_ = 0;
  Duration waited_{};
  std::exception_ptr failure_;
  std::optional<NoNumbers> no_numbers_;  // from then on
};

}  // namespace pharos::ml
