#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// In which order the samples of a dataset come, in each epoch. A value; any thread.
class PHAROS_API Order {
 public:
  /// As they lie.
  static Order in_turn(std::uint64_t size);
  /// By chance, each once; another order in each epoch, the same for the same seed. Takes no memory, and each place is
  /// found at once, however many there are: a keyed permutation.
  static Order shuffled(std::uint64_t size, std::uint64_t seed);
  /// As torch.randperm(size) has it with a generator seeded by seed + epoch, which is what PyTorch's DistributedSampler
  /// does. Takes eight bytes a sample.
  static Order as_torch(std::uint64_t size, std::uint64_t seed);

  std::uint64_t size() const { return size_; }
  std::uint64_t seed() const { return seed_; }

  /// One epoch's.
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
  /// The sample at a place below size().
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

/// A number that follows from these, and looks like chance.
PHAROS_API std::uint64_t mixed(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample);

}  // namespace pharos::ml
