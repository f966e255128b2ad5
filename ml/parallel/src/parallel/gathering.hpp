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

#include "parallel/nan_memory.hpp"
#include "parallel/shards.hpp"
#include "parallel/watch.hpp"

namespace pharos::ml {

/// Gathers the parameters of a unit from all ranks when an operator is about to work on one of them. There are three
/// ways. If the ranks share memory, and keep parameters in the type in which the module computes, each unit exists
/// once: all ranks read it where each rank keeps its part, and only wait for each other. Otherwise, with Staying::kAll,
/// each unit has memory of its own, and is gathered once in a step. With Staying::kRest a few rooms (buffers for one
/// unit each) are used by the units in turn.
///
/// Owned by Sharded::Core, whose units outlive it. One thread at a time may use it, or run operators on the parameters.
/// The constructor, refresh(), end_reading() and advance() throw what fails between ranks. touched() cannot throw: it
/// keeps the failure for check(), and all parameters are NaN from then on. The destructor waits for gathers that are
/// under way, at most for the communicator's timeout, and leaves the parameters without memory.
class Gathering final : public Watch::Owner {
 public:
  /// Which units stay in memory during a step: all of them, or only the unit of the parameters that belong to no block.
  enum class Staying { kAll, kRest };

  Gathering(const Communicator& ranks, std::vector<ShardedUnit>& units, Staying staying);
  ~Gathering() override;

  /// Returns nullptr if the unit has no memory of its own.
  std::byte* memory_of(std::size_t unit) const { return places_[unit].own; }
  /// Begins to watch the operators. Call it when the units have been taken over (see take_over()).
  void begin();
  /// Discards all gathered parameters, because ranks change those that they train; with `also_frozen` those that are
  /// not trained, too.
  void refresh(bool also_frozen = false);
  /// Call it, on all ranks, before this rank changes what it keeps: waits until the other ranks have stopped reading
  /// it.
  void end_reading();
  /// Sets the order in which units that stay are gathered. All ranks have agreed on it.
  void set_order(std::span<const std::size_t> units) { order_.assign(units.begin(), units.end()); }
  /// Goes on with gathers that are under way, without waiting.
  void advance();

  /// Throws the failure that an operator could not throw, if there was one.
  void check() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }
  /// Units in the order in which they were first touched; then the others.
  std::vector<std::size_t> order_of_touch() const;
  /// The path of this step: the units in the order in which they were touched. As a hash of all, and as a list of the
  /// first ones.
  std::uint64_t path_hash() const { return path_hash_; }
  const std::vector<std::uint32_t>& path() const { return path_; }
  /// True if nothing is gathered, because all ranks read each part where its rank keeps it.
  bool reads_in_place() const { return reads_in_place_; }
  /// Bytes of memory for gathered parameters.
  std::size_t bytes() const;
  std::size_t gathers() const { return gathers_; }
  Duration waited() const { return waited_; }
  /// Begins the path and the statistics of a new step.
  void begin_counting();

  void touched(std::span<const std::uint32_t> numbers) noexcept override;

 private:
  static constexpr std::size_t kNever = static_cast<std::size_t>(-1);
  /// Memory for one unit.
  struct Room {
    Buffer<std::byte> memory;
    std::size_t holder = kNever;  // the unit that uses it
  };
  /// The state of a unit.
  struct Place {
    std::byte* own = nullptr;
    Room* room = nullptr;
    bool is_there = false;
    bool has_frozen = false;  // its frozen parameters were gathered, and need not be gathered again
    std::vector<Pending> coming{};
    std::uint64_t version = 0;  // version of the part that this rank keeps, when the unit was gathered
    std::uint64_t used = 0;     // value of clock_ at the last use
    std::size_t turn = kNever;  // its place in by_turn_
  };
  /// Whether find_room() may allocate another room.
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
  bool is_read_ = false;                     // parameters have been read in place since the last refresh()
  std::vector<Place> places_;                // by unit
  std::vector<Buffer<std::byte>> memories_;  // memory of the units that stay, or one memory for all units
  std::deque<Room> rooms_;
  std::size_t room_bytes_ = 0;
  std::optional<Watch> watch_;
  std::uint32_t last_ = static_cast<std::uint32_t>(-1);
  std::uint64_t clock_ = 0;
  std::vector<std::size_t> by_turn_;
  std::vector<std::size_t> order_;  // order of gathers, with Staying::kAll
  std::vector<std::uint32_t> path_;
  std::uint64_t path_hash_ = 0;
  std::size_t gathers_ = 0;
  Duration waited_{};
  std::exception_ptr failure_;
  std::optional<NanMemory> nan_memory_;  // memory of all parameters after a failure
};

}  // namespace pharos::ml
