#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
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
  /// A random order in which samples of similar length come together, so that batches have little padding. `batch`: the
  /// samples of all ranks in one step. In each epoch the samples are shuffled, those of 50 batches at a time are sorted
  /// by their length, and the batches come in a random order; samples that fill no batch come last. Takes eight bytes
  /// for each sample, twice. Throws InvalidArgument if `batch` is 0.
  ///
  ///   Order::bucketed(lengths_of(*data, "tokens"), 64, 1)
  static Order bucketed(std::vector<std::int64_t> lengths, std::uint64_t batch, std::uint64_t seed);
  /// As many samples as there are weights, each of them drawn with a probability that is proportional to its weight: in
  /// an epoch some samples come several times, with the same random changes (see Dataset::read()), and others do not
  /// come. Takes eight bytes for each sample, twice. Throws
  /// InvalidArgument if a weight is negative or not finite, or if all are 0.
  static Order weighted(std::vector<double> weights, std::uint64_t seed);

  /// A random order for a dataset in shards of these sizes, which needs only a few of them at a time. In each epoch the
  /// shards come in another order, and `window` samples in a row are shuffled, 0: none. `streams` parts of the data go
  /// side by side: the places p, p + streams, … have the samples of one part. Ranks whose number divides `streams` thus
  /// read different shards, and the order is the same for any number of ranks. Takes 16 bytes for each shard. Throws
  /// InvalidArgument if there are no streams, or too many samples.
  static Order by_shards(std::vector<std::uint64_t> sizes, std::uint64_t window, std::uint64_t streams,
                         std::uint64_t seed);

  std::uint64_t size() const { return size_; }
  std::uint64_t seed() const { return seed_; }

  /// The order of one epoch: a value, which does not need the Order. With as_torch(), bucketed(), weighted() and
  /// by_shards() this function makes a list, which takes time; copies of an Epoch share the list.
  class Epoch;
  Epoch epoch(std::uint64_t number) const;

 private:
  enum class Kind : std::uint8_t { kInTurn, kShuffled, kFound };
  /// Returns the sample at a place. Any thread.
  using Find = std::function<std::uint64_t(std::uint64_t place)>;
  /// Makes it for an epoch. Any thread.
  using MakeFind = std::function<Find(std::uint64_t epoch)>;
  Order(Kind kind, std::uint64_t size, std::uint64_t seed, MakeFind make_find = {})
      : kind_{kind}, size_{size}, seed_{seed}, make_find_{std::move(make_find)} {}
  static Order listed(std::uint64_t size, std::uint64_t seed,
                      std::function<std::vector<std::uint64_t>(std::uint64_t epoch)> list);

  Kind kind_;
  std::uint64_t size_;
  std::uint64_t seed_;
  MakeFind make_find_;
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
  Find find_{};
};

/// Returns a number that looks random and depends only on the arguments. Any thread.
PHAROS_API std::uint64_t mixed(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample);

}  // namespace pharos::ml
