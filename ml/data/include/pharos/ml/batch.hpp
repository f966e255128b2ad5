#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/array.hpp>
#include <pharos/ml/dataset.hpp>

/// The batches that a Loader gives, and how they are made.
namespace pharos::ml {

/// The samples of one rank in one step. May be an argument or a result of actors.
struct Batch {
  /// The fields of the dataset, in its order. The first dimension is the samples. For each field that varies, such as
  /// "tokens", the second dimension is the longest sample of the batch, and a field "tokens_length" has the length of
  /// each sample. With LoaderOptions::collate they are what that returns.
  std::vector<NamedArray> fields{};
  /// How many samples count. If this rank has none of the last samples of an epoch, its batch has one sample that does
  /// not count, so that the rank can take part: tell Ddp or Sharded by weigh(samples).
  std::size_t samples = 0;
  /// The samples of all ranks in this step.
  std::size_t samples_of_all = 0;
  std::vector<std::uint64_t> numbers{};  ///< the numbers of the samples in the dataset
  std::uint64_t epoch = 0;

  /// Throws NotFound if there is no field of that name.
  PHAROS_API const Array& operator[](std::string_view name) const;

  auto pharos_fields() { return std::tie(fields, samples, samples_of_all, numbers, epoch); }
};

/// Gives so many bytes of memory, at an address that any number may lie at. Threads of a Loader call it, several at a
/// time.
using TakeMemory = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

/// Makes the fields of a batch of its samples, whose fields are those of the dataset. A field of the batch may have
/// any shape. Threads of a Loader call it, several at a time. It is called with one sample for a rank that has none
/// left. What it throws, Loader::next() throws.
using Collate = std::function<std::vector<NamedArray>(std::span<const Sample> samples)>;

}  // namespace pharos::ml
