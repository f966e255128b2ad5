#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/sharding.hpp>

#include "parallel/shards.hpp"

namespace pharos::ml {

/// Reduces the gradients of units to their mean over all ranks, and adds the result to the slices that each rank keeps.
/// All ranks reduce the same units in the same order, so a complete unit waits for the units before it. Each rank
/// reduces one piece of a unit. The pieces of other ranks are copied to memory that these ranks can read, if a room is
/// free, as soon as the gradient is there and still in the caches. On the CPU this rank's own piece stays where
/// backward left it.
///
/// A room is memory for the gradients of one unit. Owned by Sharded::Core; one thread at a time. Failures between ranks
/// are thrown by all functions that begin, go on with or wait for a reduction; gradients are undefined then. `units`
/// and `slices` outlive it. The destructor waits for reductions that are under way, at most for the communicator's
/// timeout, and throws nothing.
class Reducing {
 public:
  /// `whole`: each unit has a room of its own, as in ZeRO-1. Otherwise units use two rooms in turn, except for the unit
  /// of the parameters that belong to no block. All ranks construct it together, because the rooms are allocated by the
  /// communicator; throws what that throws.
  Reducing(const Communicator& ranks, std::vector<ShardedUnit>& units, std::span<const NamedTensor> parameters,
           std::vector<ShardSlice>& slices, bool whole);

  /// The type in which a parameter's gradient is sent and summed up.
  at::ScalarType type_of(std::size_t parameter) const { return gradients_[parameter].sent; }
  /// Sets the order in which units are reduced, from the next backward on.
  void set_order(std::span<const std::size_t> units);

  /// Call it when a backward begins. Waits for reductions that a failed backward has left, and drops their results.
  void begin();
  /// Call it when a backward has thrown: drops the gradients of the module's parameters.
  void forget();
  /// Call it when a parameter's gradient has come. It is weighted by `factor`.
  void arrive(std::size_t parameter, double factor);
  /// Goes on with reductions that are under way, without waiting.
  void advance();
  /// Call it when the backward has ended. Begins to reduce the units that are left, so that all ranks begin the same
  /// reductions whatever parameters they have used. Gradients of earlier backwards that were held back are included.
  void finish(double factor);
  /// Whether this rank has a gradient of a parameter: `kNone`, `kSome`, or `kLate` if a part of it came after its unit
  /// had been reduced.
  enum Has : std::uint8_t { kNone, kSome, kLate };
  /// The state of each parameter's gradient on this rank.
  std::vector<std::uint8_t> state() const;
  /// Waits for all reductions, and reduces units with late gradients a second time. `all`: for each parameter the
  /// largest of all ranks' states.
  void end(std::span<const std::uint8_t> all, double factor);

  std::size_t reductions() const { return reductions_; }
  Duration waited() const { return waited_; }

 private:
  struct Room {
    Buffer<std::byte> memory;
    std::size_t holder;  // the unit that uses it, or kNobody
  };
  /// The gradient of a parameter in a backward.
  struct Gradient {
    std::size_t unit = kNobody;  // kNobody if the parameter is not trained
    at::Tensor parameter{};
    at::ScalarType sent{};
    std::size_t place = 0;  // offset in its unit's room, in bytes
    std::int64_t size = 0;
    // The part that this rank itself reduces, in bytes: where it begins in the gradient, its length, and where it
    // begins in this rank's piece of the unit.
    std::size_t own_begin = 0;
    std::size_t own_bytes = 0;
    std::size_t piece_begin = 0;
    std::uint8_t has = kNone;
    bool is_copied = false;  // the parts of other ranks are in the room
    at::Tensor kept{};       // the whole gradient, if this rank's part is reduced from where it lies
  };
  /// The state of a unit in a backward.
  struct Progress {
    Room* room = nullptr;
    std::size_t turn = kNobody;  // its place in order_; kNobody if the unit has no trained parameters
    std::size_t missing = 0;     // number of gradients that have not come
    bool is_begun = false;
  };
  struct UnderWay {
    std::size_t unit;
    std::vector<at::Tensor> results{};  // by shard
    std::vector<std::vector<Elsewhere>> own{};
    std::vector<Pending> pending{};
  };
  static constexpr std::size_t kNobody = static_cast<std::size_t>(-1);
  /// How far a reduction must have come: later work on its results comes after it, or it has ended. The end of one is
  /// the end of all before it. On the CPU both are the same.
  enum class Until : std::uint8_t { kOrdered, kEnded };

  bool take_room(std::size_t unit);
  void copy(Gradient& gradient, double factor);
  std::byte* memory_of(const Gradient& gradient) const;
  void copy_for_others(Gradient& gradient, const at::Tensor& flat);
  void copy_own(Gradient& gradient);
  static std::span<const std::byte> own_bytes_of(const Gradient& gradient);
  std::vector<Elsewhere> own_of(const Shard& shard) const;
  void reduce(std::size_t unit, double factor);
  void set_aside(std::size_t unit);
  at::Tensor result_of(Shard& shard, const Room& room) const;
  void settle_front(Until until);
  void put_down(const Shard& shard, const at::Tensor& result);
  void let_go_of_unused(std::span<const std::uint8_t> all);

  Communicator ranks_;
  std::vector<ShardedUnit>& units_;
  std::vector<ShardSlice>& slices_;
  const bool whole_;
  std::vector<Gradient> gradients_;  // by parameter
  std::vector<Progress> progress_;   // by unit
  std::deque<Room> rooms_;
  std::vector<Room*> shared_rooms_;
  std::vector<std::size_t> order_;  // units, in the order in which they are reduced
  std::size_t next_ = 0;            // place in order_ of the unit that is reduced next
  std::deque<UnderWay> under_way_;
  std::vector<bool> had_gradient_;  // by slice
  std::size_t reductions_ = 0;
  Duration waited_{};
};

}  // namespace pharos::ml
