#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// The order in which the samples of a dataset come, for each epoch. A value type; any thread may use it.
class PHAROS_API Order {
 public:
  /// The order of their numbers.
  static Order in_turn(std::uint64_t size);
  /// A random order in which each sample comes once. Each epoch has another order, and the same seed gives the same
  /// orders. Takes no memory, and finds any place in constant time, because it is a keyed permutation.
  static Order shuffled(std::uint64_t size, std::uint64_t seed);
  /// The order of torch.randperm(size) with a generator that is seeded with seed + epoch, as PyTorch's
  /// DistributedSampler uses it. Takes eight bytes for each sample. Throws InvalidArgument for too many samples (about
  /// 214 million).
  static Order as_torch(std::uint64_t size, std::uint64_t seed);

  std::uint64_t size() const { return size_; }
  std::uint64_t seed() const { return seed_; }

  /// The order of one epoch: a value, which does not need the Order. With as_torch() this function makes the list,
  /// which takes time; copies of an Epoch share the list.
  class Epoch;
  Epoch epoch(std::uint64_t number) const;

 private:
  enum class Kind : std::uint8_t { kInTurn, kShuffled, kAsTorch };
  Order(Kind kind, std::uint64_t size, std::uint64_t seed) : kind_{kind}, size_{size}, seed_{seed} {}

  Kind kind_;
  std::uint64_t size_;
  std::uint64_t seed_;
};

class PHAROS_API Order::Epoch {
 public:
  /// Returns the number of the sample at a place, which must be below size() (PHAROS_CHECK). Any thread.
  std::uint64_t operator[](std::uint64_t place) const;

 private:
  friend class Order;
  static constexpr std::size_t kRounds = 8;

  Epoch(Kind kind, std::uint64_t size) : kind_{kind}, size_{size} {}
  std::uint64_t turned(std::uint64_t place) const;

  Kind kind_;
  std::uint64_t size_;
  std::uint32_t bits_ = 0;
  std::array<std::uint64_t, kRounds> keys_{};
  std::shared_ptr<const std::vector<std::uint64_t>> listed_{};
};

/// Returns a number that looks random and depends only on the arguments. Any thread.
PHAROS_API std::uint64_t mixed(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample);

}  // namespace pharos::ml
