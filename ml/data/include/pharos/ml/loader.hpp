#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/array.hpp>
#include <pharos/ml/dataset.hpp>
#include <pharos/ml/order.hpp>

namespace pharos::ml {

/// How far all ranks together are: what a checkpoint keeps of the data. It means the same with any number of ranks.
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t sample = 0;  ///< so many of this epoch's have been given out

  bool operator==(const Position&) const = default;
  auto pharos_fields() { return std::tie(epoch, sample); }
};

/// What becomes of samples at an epoch's end that do not make a whole batch for all ranks. Of an epoch that other ranks
/// have begun, it is what they have left that counts.
enum class Tail : std::uint8_t {
  kUneven,  ///< each comes once: some ranks have one more than others
  kPad,     ///< the epoch's first ones come again, until all ranks have as many; as PyTorch's DistributedSampler
  kDrop,    ///< fewer than there are ranks are left out, until all have as many; as that with drop_last
};

struct LoaderOptions {
  /// Samples of this rank in a batch.
  std::size_t batch = 32;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  /// None: shuffled by `seed`.
  std::optional<Order> order{};
  std::uint64_t seed = 0;
  Tail tail = Tail::kUneven;
  /// Threads that make batches ahead. 0: next() makes them.
  std::size_t threads = 1;
  /// Batches that are ready, or being made, at most.
  std::size_t ahead = 4;
};

/// May be an argument or a result of actors.
struct Batch {
  /// In the order of the dataset's fields; the first dimension is the samples.
  std::vector<NamedArray> fields{};
  /// So many count. Where a rank has none of an epoch's last ones, its batch has one that does not count, so that it
  /// can take part: tell Ddp or Sharded by weigh(samples).
  std::size_t samples = 0;
  /// Of all ranks together.
  std::size_t samples_of_all = 0;
  std::vector<std::uint64_t> numbers{};  ///< of the samples
  std::uint64_t epoch = 0;

  /// Throws NotFound.
  PHAROS_API const Array& operator[](std::string_view name) const;

  auto pharos_fields() { return std::tie(fields, samples, samples_of_all, numbers, epoch); }
};

/// Gives each rank its share of a dataset, batch after batch, in an order that all ranks know: place p of an epoch goes
/// to rank p % ranks. Threads make batches ahead, in memory that is used again when nobody has the batch any more. What
/// a dataset throws is thrown by next(). One thread at a time.
///
///   ml::Loader loader{data, {.batch = 64, .rank = ranks.rank(), .ranks = ranks.size(), .seed = 1}};
///   while (loader.position().epoch < 3) {
///     while (const auto batch = loader.next()) train(*batch);
///   }
///
/// Where loading is to be in no rank's process, an actor loads: a batch is copied into the object store once, and the
/// ranks of its machine read it where it lies there, without a copy. A rank that asks for the next one before it trains
/// with this one does not wait for it.
///
///   class Loading {
///    public:
///     std::optional<ml::Batch> next() { return loader_.next(); }
///    private:
///     ml::Loader loader_{data(), {.batch = 64}};
///   };
///   const auto loading = runtime.spawn<Loading>();
///   auto next = loading.call<&Loading::next>();
///   while (const auto batch = next.get()) {
///     next = loading.call<&Loading::next>();
///     train(*batch);
///   }
class PHAROS_API Loader {
 public:
  /// Throws InvalidArgument when there are fewer samples than ranks.
  Loader(DatasetPtr dataset, const LoaderOptions& options);
  Loader(Loader&&) = delete;
  ~Loader();

  /// Nothing, once, at the end of an epoch; then the next one begins.
  std::optional<Batch> next();
  /// Behind the last batch that was given out. At the end of an epoch, until next() has said so: behind its last one.
  Position position() const;
  /// All of an epoch has been given out: next() will say so.
  bool at_end() const;
  /// The next batch begins there, wherever other ranks, more or fewer, have left off. Throws InvalidArgument for what
  /// is behind the dataset's end.
  void seek(Position position);

  /// In an epoch that these ranks begin.
  std::uint64_t samples() const;
  std::uint64_t batches() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace pharos::ml
