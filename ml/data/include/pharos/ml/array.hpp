#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/dtype.hpp>
#include <pharos/wire/bytes.hpp>
#include <pharos/wire/codec.hpp>

namespace pharos::ml {

/// Rows of numbers that never change, of one type and shape: the samples of a dataset, those of a batch, a tensor of a
/// file. Lies in memory, in a mapped file or in the object store; copies are the same numbers. May be read in any
/// thread. Travels without other bytes between its rows; where it arrives out of the object store it is the object
/// itself, which lives as long as any copy of this, but for arrays of less than a page, which are copied.
class PHAROS_API Array {
 public:
  /// No rows of one number each.
  Array() = default;
  /// Rows lie `row_stride` bytes apart; 0: one behind the other. Throws InvalidArgument for bytes that are too few, and
  /// for lengths below 0.
  Array(DType dtype, std::vector<std::int64_t> shape, Bytes bytes, std::size_t row_stride = 0);

  /// Of numbers that stay in their vector. Throws InvalidArgument where the shape takes more of them, or fewer.
  template <Element T>
  static Array of(std::vector<T> values, std::vector<std::int64_t> shape) {
    const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    Array array{kDTypeOf<T>, std::move(shape), Bytes{owner, std::as_bytes(std::span{*owner})}};
    array.check_takes(owner->size());
    return array;
  }
  /// A row for each.
  template <Element T>
  static Array of(std::vector<T> values) {
    const auto rows = static_cast<std::int64_t>(values.size());
    return of(std::move(values), {rows});
  }

  DType dtype() const { return dtype_; }
  /// The first is the number of rows; without any it is one number.
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::vector<std::int64_t> row_shape() const;
  std::size_t rows() const { return rows_; }
  std::size_t row_bytes() const { return row_bytes_; }
  std::size_t elements() const { return rows_ * (row_bytes_ / size_of(dtype_)); }
  std::span<const std::byte> row(std::size_t row) const { return bytes_.span().subspan(row * stride_, row_bytes_); }
  /// Those from `begin` on; the memory stays.
  Array part(std::size_t begin, std::size_t rows) const;

  /// All of them lie one behind the other.
  bool is_dense() const { return stride_ == row_bytes_ || rows_ <= 1; }
  /// Copied, where they do not.
  Array dense() const;
  /// Of an array that is dense.
  const Bytes& bytes() const { return bytes_; }
  /// Throws InvalidArgument when they are of another type, do not lie one behind the other, or not where such may lie.
  template <Element T>
  std::span<const T> values() const {
    check_are(kDTypeOf<T>, alignof(T));
    return {reinterpret_cast<const T*>(bytes_.data()), elements()};
  }

 private:
  void check_are(DType dtype, std::size_t alignment) const;
  void check_takes(std::size_t numbers) const;

  DType dtype_ = DType::kU8;
  std::vector<std::int64_t> shape_{0};
  Bytes bytes_{};
  std::size_t rows_ = 0;
  std::size_t row_bytes_ = 0;
  std::size_t stride_ = 0;
};

/// "f32 (3, 4)"
PHAROS_API std::string describe(DType dtype, std::span<const std::int64_t> shape);

}  // namespace pharos::ml

namespace pharos {

template <>
struct PHAROS_API Codec<ml::Array> {
  static constexpr std::string_view kFormat = "pharos.ml.Array/1";
  static void encode(const ml::Array& value, Encoder& to);
  static ml::Array decode(Decoder& from);
};

}  // namespace pharos

namespace pharos::ml {

/// An array with the name that it has in a file, or in a batch.
struct NamedArray {
  std::string name;
  Array array;

  auto pharos_fields() { return std::tie(name, array); }
};

}  // namespace pharos::ml
