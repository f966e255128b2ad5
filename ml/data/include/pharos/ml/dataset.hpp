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

/// What each sample has one of: numbers of that type and shape.
struct Field {
  std::string name;
  DType dtype{};
  std::vector<std::int64_t> shape{};

  PHAROS_API std::size_t bytes() const;
};

/// Samples by their number. read() runs in several threads at once, and never changes what a number gives.
class PHAROS_API Dataset {
 public:
  Dataset() = default;
  Dataset(Dataset&&) = delete;
  virtual ~Dataset();

  virtual std::uint64_t size() const = 0;
  virtual const std::vector<Field>& fields() const = 0;
  /// Writes a sample's fields where a batch has them. `chance` follows from the loader's seed, the epoch and the
  /// sample: what is drawn from it is the same in each run. May throw.
  virtual void read(std::uint64_t sample, std::uint64_t chance, std::span<const std::span<std::byte>> to) const = 0;
};
using DatasetPtr = std::shared_ptr<const Dataset>;

/// Their rows, of which all have as many.
PHAROS_API DatasetPtr rows_of(std::vector<NamedArray> arrays);

/// Windows of a text: "tokens", and "next" with those that follow each of them; i64. A window begins `step` tokens
/// behind the one before; 0: `length`.
PHAROS_API DatasetPtr windows_of(Tokens tokens, std::size_t length, std::size_t step = 0);

/// A sample's fields, as another dataset has them.
struct Sample {
  std::uint64_t number = 0;
  std::uint64_t chance = 0;  ///< for what is drawn
  std::span<const std::span<const std::byte>> fields{};

  template <Element T>
  std::span<const T> field(std::size_t place) const {
    return {reinterpret_cast<const T*>(fields[place].data()), fields[place].size() / sizeof(T)};
  }
};
/// Where its new ones go.
struct NewSample {
  std::span<const std::span<std::byte>> fields{};

  template <Element T>
  std::span<T> field(std::size_t place) const {
    return {reinterpret_cast<T*>(fields[place].data()), fields[place].size() / sizeof(T)};
  }
};
/// Samples as `change` makes them of those of another one: scaled, cut, flipped. It runs in several threads at once.
///
///   const auto images = ml::changed(bytes, {{"image", DType::kF32, {1, 28, 28}}},
///                                   [](const ml::Sample& from, const ml::NewSample& to) {
///                                     std::ranges::transform(from.field<std::uint8_t>(0), to.field<float>(0).begin(),
///                                                            [](std::uint8_t each) { return each / 255.0F; });
///                                   });
PHAROS_API DatasetPtr changed(DatasetPtr from, std::vector<Field> fields,
                              std::function<void(const Sample& from, const NewSample& to)> change);

/// So many of its samples, from `begin` on.
PHAROS_API DatasetPtr part_of(DatasetPtr from, std::uint64_t begin, std::uint64_t size);

}  // namespace pharos::ml
