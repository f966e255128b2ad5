#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/array.hpp>
#include <pharos/ml/readers.hpp>

namespace pharos::ml {

/// One value of each sample: numbers of this type and shape. A plain value.
struct Field {
  std::string name;
  DType dtype{};
  std::vector<std::int64_t> shape{};

  /// Throws InvalidArgument if a length is negative or the lengths are too large.
  PHAROS_API std::size_t bytes() const;
};

/// Samples that are accessed by number. Several threads call read() at the same time, and it must always return the
/// same for the same arguments. Shared by the program, Loaders and other datasets, each of which keeps the Dataset
/// alive.
class PHAROS_API Dataset {
 public:
  Dataset() = default;
  Dataset(Dataset&&) = delete;
  virtual ~Dataset();

  virtual std::uint64_t size() const = 0;
  virtual const std::vector<Field>& fields() const = 0;
  /// Writes the fields of a sample into a batch: `to` has a span of Field::bytes() for each field, and is valid during
  /// the call. `sample` is below size(). `chance` is a random number that depends on the loader's seed, the epoch and
  /// the sample: random changes that use only `chance` are the same in each run. May throw; Loader::next() then throws.
  virtual void read(std::uint64_t sample, std::uint64_t chance, std::span<const std::span<std::byte>> to) const = 0;
};
using DatasetPtr = std::shared_ptr<const Dataset>;

/// A dataset whose samples are the rows of these arrays. Throws InvalidArgument unless there is an array and all have
/// the same number of rows.
PHAROS_API DatasetPtr rows_of(std::vector<NamedArray> arrays);

/// A dataset of windows of a text: "tokens", and "next" with the token that follows each of them; both i64. Each window
/// begins `step` tokens after the previous one; 0: `length`. Throws InvalidArgument for a length of 0. Without enough
/// tokens for one window the dataset has no samples.
PHAROS_API DatasetPtr windows_of(Tokens tokens, std::size_t length, std::size_t step = 0);

/// The fields of a sample of another dataset. Valid during the call that gets it. Places and types are not checked.
struct Sample {
  std::uint64_t number = 0;
  std::uint64_t chance = 0;  ///< for random changes
  std::span<const std::span<const std::byte>> fields{};

  template <Element T>
  std::span<const T> field(std::size_t place) const {
    return {reinterpret_cast<const T*>(fields[place].data()), fields[place].size() / sizeof(T)};
  }
};
/// The memory for the new fields of the sample; as with Sample.
struct NewSample {
  std::span<const std::span<std::byte>> fields{};

  template <Element T>
  std::span<T> field(std::size_t place) const {
    return {reinterpret_cast<T*>(fields[place].data()), fields[place].size() / sizeof(T)};
  }
};
/// A dataset whose samples are made by `change` of the samples of another dataset, for example scaled, cropped or
/// flipped. Several threads call `change` at the same time. What `change` throws leaves read(). The new dataset keeps
/// `change` and the other dataset alive.
///
///   const auto images = ml::changed(bytes, {{"image", DType::kF32, {1, 28, 28}}},
///                                   [](const ml::Sample& from, const ml::NewSample& to) {
///                                     std::ranges::transform(from.field<std::uint8_t>(0), to.field<float>(0).begin(),
///                                                            [](std::uint8_t each) { return each / 255.0F; });
///                                   });
PHAROS_API DatasetPtr changed(DatasetPtr from, std::vector<Field> fields,
                              std::function<void(const Sample& from, const NewSample& to)> change);

/// A dataset of `size` samples of another one, from `begin` on. Throws InvalidArgument if there are fewer.
PHAROS_API DatasetPtr part_of(DatasetPtr from, std::uint64_t begin, std::uint64_t size);

}  // namespace pharos::ml
