#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/array.hpp>
#include <pharos/ml/readers.hpp>

namespace pharos::ml {

/// As the first length of a field's shape: each sample has a length of its own, such as the number of its tokens.
inline constexpr std::int64_t kVaries = -1;

/// One value of each sample: numbers of this type and shape. A plain value.
struct PHAROS_API Field {
  std::string name;
  DType dtype{};
  std::vector<std::int64_t> shape{};
  /// What a batch has behind the end of the samples that are shorter than its longest one.
  double padding = 0;

  bool varies() const { return !shape.empty() && shape[0] == kVaries; }
  /// The bytes of a sample. Throws InvalidArgument if a length is negative or the lengths are too large; so for a field
  /// that varies.
  std::size_t bytes() const;
  /// The bytes of a sample in which a field that varies has this length. Throws as bytes().
  std::size_t bytes(std::int64_t length) const;
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
  /// The first length of a field that varies, in this sample: read() then gets a span of Field::bytes(length). Called
  /// often, and by several threads at the same time. A dataset without such fields need not have it.
  virtual std::int64_t length(std::uint64_t sample, std::size_t field) const;

  /// How many samples ahead a Loader is to say which samples it will read; 0: not at all.
  virtual std::uint64_t ahead() const { return 0; }
  /// These samples will be read soon, if nothing comes in between. Called by any thread; must not wait, nor throw.
  virtual void expect(std::span<const std::uint64_t>) const {}
};
using DatasetPtr = std::shared_ptr<const Dataset>;

/// A dataset whose samples are the rows of these arrays. Throws InvalidArgument unless there is an array and all have
/// the same number of rows.
PHAROS_API DatasetPtr rows_of(std::vector<NamedArray> arrays);

/// A dataset of lists of different lengths, such as the tokens of texts. Its only field varies. List i is the next
/// lengths[i] rows of `rows`. A batch is as wide as its longest list, and has `padding` behind the others; see Batch.
/// Throws InvalidArgument unless the lengths are those of all rows together.
///
///   const auto texts = ml::lists_of("tokens", tokens_of_texts);
///   return ml::side_by_side({texts, ml::rows_of({{"clicked", clicked}})});
PHAROS_API DatasetPtr lists_of(std::string name, Array rows, std::vector<std::int64_t> lengths, double padding = 0);
template <Element T>
DatasetPtr lists_of(std::string name, const std::vector<std::vector<T>>& lists, double padding = 0) {
  std::vector<T> all;
  std::vector<std::int64_t> lengths;
  for (const std::vector<T>& each : lists) {
    all.insert(all.end(), each.begin(), each.end());
    lengths.push_back(static_cast<std::int64_t>(each.size()));
  }
  return lists_of(std::move(name), Array::of(std::move(all)), std::move(lengths), padding);
}
/// A dataset whose samples have the fields of all these datasets. Throws InvalidArgument unless there is a dataset and
/// all have the same number of samples, and different names of fields.
PHAROS_API DatasetPtr side_by_side(std::vector<DatasetPtr> datasets);

/// The lengths of all samples, for Order::bucketed(). Throws NotFound if there is no such field, and InvalidArgument if
/// it does not vary.
PHAROS_API std::vector<std::int64_t> lengths_of(const Dataset& dataset, std::string_view field);

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
/// `change` and the other dataset alive. The other dataset may have fields that vary, and the new one may not: then it
/// throws InvalidArgument.
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
