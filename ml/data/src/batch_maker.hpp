#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <pharos/ml/batch.hpp>
#include <pharos/ml/dataset.hpp>

namespace pharos::ml {

class BatchMemory;

/// Makes the fields of batches from the samples of a dataset. Owned by a Loader; any thread may call it. The memory of
/// the batches is used again, and outlives this object where batches still have it.
class BatchMaker {
 public:
  /// As LoaderOptions says. Throws InvalidArgument if a field of the dataset makes no sense.
  BatchMaker(DatasetPtr dataset, std::uint64_t seed, Collate collate, TakeMemory memory);

  /// Throws what the dataset throws while a sample is read, as an Error with the number of that sample, and what the
  /// collation throws.
  std::vector<NamedArray> make(std::span<const std::uint64_t> samples, std::uint64_t epoch) const;

 private:
  struct Place;
  void check(const Field& field) const;
  std::vector<NamedArray> padded(std::span<const std::uint64_t> samples, std::uint64_t epoch) const;
  std::vector<NamedArray> collated(std::span<const std::uint64_t> samples, std::uint64_t epoch) const;
  Place place_of(std::size_t field, std::span<const std::uint64_t> samples) const;
  void read(std::uint64_t sample, std::uint64_t epoch, std::span<const std::span<std::byte>> to) const;

  const DatasetPtr dataset_;
  const std::uint64_t seed_;
  const Collate collate_;
  const std::shared_ptr<BatchMemory> memory_;
};

}  // namespace pharos::ml
