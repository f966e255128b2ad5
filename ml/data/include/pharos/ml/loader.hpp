#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>

#include <pharos/base/export.hpp>
#include <pharos/ml/batch.hpp>
#include <pharos/ml/dataset.hpp>
#include <pharos/ml/order.hpp>

namespace pharos::ml {

/// How far all ranks together have read the data; the part of a checkpoint that is about data. It is valid for any
/// number of ranks.
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t sample = 0;  ///< how many samples of this epoch have been given out

  bool operator==(const Position&) const = default;
  auto pharos_fields() { return std::tie(epoch, sample); }
};

/// The treatment of samples at the end of an epoch that do not fill a batch of all ranks. In an epoch that other
/// ranks have begun, only the samples that they left count.
enum class Tail : std::uint8_t {
  /// Each sample comes once, so some ranks have one more than others.
  kUneven,
  /// The first samples of the epoch come again until all ranks have the same number, as with PyTorch's
  /// DistributedSampler.
  kPad,
  /// The last samples, fewer than there are ranks, are left out, as with the DistributedSampler's drop_last.
  kDrop,
};

struct LoaderOptions {
  /// How many samples of this rank a batch has.
  std::size_t batch = 32;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  /// If not set, samples are shuffled by `seed`.
  std::optional<Order> order{};
  std::uint64_t seed = 0;
  Tail tail = Tail::kUneven;
  /// How many threads make batches ahead. 0: next() makes them.
  std::size_t threads = 1;
  /// The most batches that are ready or being made.
  std::size_t ahead = 4;
  /// How the samples become a batch. Empty: they become rows, as Batch says.
  Collate collate{};
  /// Where batches are made, without a collation. Empty: in ordinary memory. What it throws, next() throws.
  TakeMemory memory{};
};

/// Gives each rank its share of a dataset, one batch after the other, in an order that all ranks know: place p of an
/// epoch goes to rank p % ranks. Threads make batches ahead, in memory that is reused when a batch and its copies are
/// destroyed. The program or an actor owns the Loader, which keeps the dataset alive. One thread at a time.
/// Failure: what the dataset throws, next() throws as an Exception of Pharos (UserError, if it is no such exception),
/// with the number of the sample. With threads, later calls of next() throw the same again until seek(); without, they
/// try again.
/// End: the destructor waits until the batches that threads are making are complete, and drops the batches that nobody
/// has taken. Batches that were given out stay valid.
///
///   ml::Loader loader{data, {.batch = 64, .rank = ranks.rank(), .ranks = ranks.size(), .seed = 1}};
///   while (loader.position().epoch < 3) {
///     while (const auto batch = loader.next()) train(*batch);
///   }
///
/// To load data outside of the processes of the ranks, use an actor: a batch is copied into the object store once, and
/// the ranks on its machine read it there without a copy. A rank that asks for the next batch before it trains on the
/// present one does not wait for it.
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
///
/// tensor_of((*batch)["x"], device) copies a field of such a batch to a GPU from where it lies in the object store.
class PHAROS_API Loader {
 public:
  /// Throws InvalidArgument if the dataset has fewer samples than there are ranks, if the options contradict each
  /// other, or if the order is of another size; and the error of the system if there can be no more threads.
  Loader(DatasetPtr dataset, const LoaderOptions& options);
  Loader(Loader&&) = delete;
  ~Loader();

  /// Returns the next batch. Waits until the batch is made, however long the dataset takes. At the end of an epoch it
  /// returns nullopt once, and then the next epoch begins.
  std::optional<Batch> next();
  /// The position after the last batch that was given out. At the end of an epoch, this is the end of the last batch
  /// until next() has returned nullopt.
  Position position() const;
  /// Returns whether the whole epoch has been given out, so that next() would return nullopt.
  bool at_end() const;
  /// Continues at a position where other ranks, more or fewer, have stopped. Batches that were made ahead are dropped.
  /// Throws InvalidArgument, and changes nothing, if the position is beyond the end of the dataset.
  void seek(Position position);

  /// The samples and batches of an epoch that these ranks begin.
  std::uint64_t samples() const;
  std::uint64_t batches() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace pharos::ml
