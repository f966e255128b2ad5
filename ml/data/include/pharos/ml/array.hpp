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

/// Rows of numbers of one type and shape, which never change: the samples of a dataset or of a batch, or a tensor of a
/// file. The numbers are in memory, in a mapped file or in the object store. Copies share them, and keep them there:
/// the spans that an Array returns are valid as long as a copy exists. Any thread may read an Array.
/// An Array may be an argument or a result of actors. Only the rows are sent, without bytes between them. An array of a
/// page or more that arrives through the object store is not copied: it refers to the object, which lives as long as
/// any copy of the Array.
class PHAROS_API Array {
 public:
  /// An array without rows, of type kU8.
  Array() = default;
  /// Rows begin `row_stride` bytes apart; 0: one directly after the other. Throws InvalidArgument if there are too few
  /// bytes or if a length is negative.
  Array(DType dtype, std::vector<std::int64_t> shape, Bytes bytes, std::size_t row_stride = 0);

  /// Makes an array of numbers that stay in their vector. Throws InvalidArgument if the shape has more or fewer
  /// elements.
  template <Element T>
  static Array of(std::vector<T> values, std::vector<std::int64_t> shape) {
    const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    Array array{kDTypeOf<T>, std::move(shape), Bytes{owner, std::as_bytes(std::span{*owner})}};
    array.check_takes(owner->size());
    return array;
  }
  /// Each number is one row.
  template <Element T>
  static Array of(std::vector<T> values) {
    const auto rows = static_cast<std::int64_t>(values.size());
    return of(std::move(values), {rows});
  }

  DType dtype() const { return dtype_; }
  /// The first length is the number of rows. An empty shape is a single number.
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::vector<std::int64_t> row_shape() const;
  std::size_t rows() const { return rows_; }
  std::size_t row_bytes() const { return row_bytes_; }
  /// The number of elements of all rows together.
  std::size_t elements() const { return rows_ * (row_bytes_ / size_of(dtype_)); }
  /// The row must exist; this is not checked.
  std::span<const std::byte> row(std::size_t row) const { return bytes_.span().subspan(row * stride_, row_bytes_); }
  /// Returns the rows from `begin` on, which share the memory. Throws InvalidArgument if the array has fewer, or is a
  /// single number.
  Array part(std::size_t begin, std::size_t rows) const;

  /// Returns whether each row begins where the previous one ends.
  bool is_dense() const { return stride_ == row_bytes_ || rows_ <= 1; }
  /// Returns this array if it is dense, else a dense copy.
  Array dense() const;
  /// The array must be dense. There may be more bytes behind the last row.
  const Bytes& bytes() const { return bytes_; }
  /// Throws InvalidArgument if the numbers have another type, are not dense, or are not aligned for T.
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

/// Describes an array: "f32 (3, 4)".
PHAROS_API std::string describe(DType dtype, std::span<const std::int64_t> shape);

}  // namespace pharos::ml

namespace pharos {

/// Bytes that are no Array decode as an empty Array, and the Decoder has failed then.
template <>
struct PHAROS_API Codec<ml::Array> {
  static constexpr std::string_view kFormat = "pharos.ml.Array/1";
  static void encode(const ml::Array& value, Encoder& to);
  static ml::Array decode(Decoder& from);
};

}  // namespace pharos

namespace pharos::ml {

/// An array with its name in a file or in a batch.
struct NamedArray {
  std::string name;
  Array array;

  auto pharos_fields() { return std::tie(name, array); }
};

}  // namespace pharos::ml
