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
#include <pharos/ml/sharded.hpp>

#include "shards.hpp"

namespace pharos::ml {

/// Gradients of units become their mean over all ranks, at the slices that each keeps. All ranks reduce the same units
/// in the same order: one that is complete waits for those before it. What other ranks reduce of a gradient is copied
/// to where they see it while the caches have it, if there is room; what this one reduces stays where backward left it.
class Reducing {
 public:
  /// `whole`: there is memory for all gradients, as ZeRO-1 has it; otherwise two units share some in turn.
  Reducing(const Communicator& ranks, std::vector<ShardedUnit>& units, std::span<const NamedTensor> parameters,
           std::vector<Sharded::Slice>& slices, bool whole);

  /// What a parameter's gradient is summed up in.
  at::ScalarType type_of(std::size_t parameter) const { return gradients_[parameter].sent; }
  /// In which units are reduced, from the next backward on.
  void set_order(std::span<const std::size_t> units);

  /// A backward begins.
  void begin();
  /// It has thrown.
  void forget();
  /// A parameter's gradient has come; it counts `factor` times.
  void arrive(std::size_t parameter, double factor);
  /// Goes on with what is under way.
  void advance();
  /// The backward has ended: begins with what is left, so that ranks have done the same whatever they have used. What
  /// was held back of others counts.
  void finish(double factor);
  /// By parameter, what this rank has: `kNone`, `kSome`, or `kLate` if some came after their unit had been reduced.
  enum Has : std::uint8_t { kNone, kSome, kLate };
  std::vector<std::uint8_t> state() const;
  /// `all`: the largest of all ranks' states.
  void end(std::span<const std::uint8_t> all, double factor);

  std::size_t reductions() const { return reductions_; }
  Duration waited() const { return waited_; }

 private:
  struct Room {
    Buffer<std::byte> memory;
    std::size_t holder;  // kNobody, or a unit
  };
  /// Of a parameter, in a backward.
  struct Gradient {
    std::size_t unit = kNobody;  // nobody's: it is not trained
    at::Tensor parameter{};
    at::ScalarType sent{};
    std::size_t place = 0;  // in its unit's room: bytes
    std::int64_t size = 0;
    // What this rank itself reduces: bytes of it, and where they are in its piece.
    std::size_t own_begin = 0;
    std::size_t own_bytes = 0;
    std::size_t piece_begin = 0;
    std::uint8_t has = kNone;
    bool is_copied = false;
    at::Tensor kept{};  // all, if its own bytes are reduced from here
  };
  struct Progress {
    Room* room = nullptr;
    std::size_t turn = kNobody;  // when it is reduced; nobody's: it has nothing to train
    std::size_t missing = 0;
    bool is_begun = false;
  };
  struct UnderWay {
    std::size_t unit;
    std::vector<at::Tensor> results{};  // by shard
    std::vector<std::vector<Elsewhere>> own{};
    std::vector<Pending> pending{};
  };
  static constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

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
  void settle_front();
  void put_down(const Shard& shard, const at::Tensor& result);
  void let_go_of_unused(std::span<const std::uint8_t> all);

  Communicator ranks_;
  std::vector<ShardedUnit>& units_;
  std::vector<Sharded::Slice>& slices_;
  const bool whole_;
  std::vector<Gradient> gradients_;  // by parameter
  std::vector<Progress> progress_;   // by unit
  std::deque<Room> rooms_;
  std::vector<Room*> shared_rooms_;
  std::vector<std::size_t> order_;  // units
  std::size_t next_ = 0;            // in that
  std::deque<UnderWay> under_way_;
  std::vector<bool> had_gradient_;  // by slice
  std::size_t reductions_ = 0;
  Duration waited_{};
};

}  // namespace pharos::ml
