#include <cstring>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/array.hpp>

#include "shapes.hpp"

namespace pharos::ml {

namespace {

[[noreturn]] void refuse(DType dtype, std::span<const std::int64_t> shape, const std::string& why) {
  throw_error(Error{ErrorCode::kInvalidArgument, "an array of " + describe(dtype, shape) + ' ' + why});
}

}  // namespace

Array::Array(DType dtype, std::vector<std::int64_t> shape, Bytes bytes, std::size_t row_stride)
    : dtype_{dtype}, shape_{std::move(shape)}, bytes_{std::move(bytes)} {
  const auto rows = shape_.empty() ? std::int64_t{1} : shape_.front();
  const auto row = bytes_of_shape(dtype_, std::span{shape_}.subspan(shape_.empty() ? 0 : 1));
  if (rows < 0 || !row) refuse(dtype_, shape_, "makes no sense");
  rows_ = static_cast<std::size_t>(rows);
  row_bytes_ = *row;
  stride_ = row_stride == 0 ? row_bytes_ : row_stride;
  std::size_t needed = 0;
  const bool is_too_large = rows_ != 0 && (__builtin_mul_overflow(rows_ - 1, stride_, &needed) ||
                                           __builtin_add_overflow(needed, row_bytes_, &needed));
  if (is_too_large || needed > bytes_.size() || stride_ < row_bytes_) {
    refuse(dtype_, shape_, "does not fit into " + std::to_string(bytes_.size()) + " bytes");
  }
}

std::vector<std::int64_t> Array::row_shape() const {
  return {shape_.begin() + (shape_.empty() ? 0 : 1), shape_.end()};
}

Array Array::part(std::size_t begin, std::size_t rows) const {
  if (begin > rows_ || rows > rows_ - begin || shape_.empty()) {
    refuse(dtype_, shape_, "has no " + std::to_string(rows) + " rows from " + std::to_string(begin) + " on");
  }
  Array part = *this;
  part.shape_.front() = static_cast<std::int64_t>(rows);
  part.rows_ = rows;
  const std::size_t bytes = rows == 0 ? 0 : (rows - 1) * stride_ + row_bytes_;
  part.bytes_ = Bytes{bytes_.owner(), bytes_.span().subspan(rows == 0 ? 0 : begin * stride_, bytes)};
  return part;
}

Array Array::dense() const {
  if (is_dense()) return *this;
  std::vector<std::byte> bytes(rows_ * row_bytes_);
  for (std::size_t each = 0; each < rows_; ++each) {
    std::memcpy(bytes.data() + each * row_bytes_, row(each).data(), row_bytes_);
  }
  return {dtype_, shape_, Bytes{std::move(bytes)}};
}

void Array::check_are(DType dtype, std::size_t alignment) const {
  if (dtype != dtype_) refuse(dtype_, shape_, "was asked for numbers of " + std::string{to_string(dtype)});
  if (!is_dense()) {
    refuse(dtype_, shape_, "was asked for all numbers at once, but other bytes lie between its rows: take dense()");
  }
  if (reinterpret_cast<std::uintptr_t>(bytes_.data()) % alignment != 0) {
    refuse(dtype_, shape_, "does not lie at a multiple of " + std::to_string(alignment) + " bytes: copy its rows");
  }
}

void Array::check_takes(std::size_t numbers) const {
  if (numbers != elements()) refuse(dtype_, shape_, "does not take " + std::to_string(numbers) + " numbers");
}

std::string describe(DType dtype, std::span<const std::int64_t> shape) {
  std::string text = std::string{to_string(dtype)} + " (";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ')';
}

std::optional<std::size_t> bytes_of_shape(DType dtype, std::span<const std::int64_t> shape) {
  // Lengths other than 0 are checked even if one length is 0.
  std::size_t bytes = size_of(dtype);
  bool is_empty = false;
  for (const std::int64_t each : shape) {
    if (each < 0) return std::nullopt;
    if (each == 0) {
      is_empty = true;
    } else if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(each), &bytes)) {
      return std::nullopt;
    }
  }
  return is_empty ? 0 : bytes;
}

}  // namespace pharos::ml

namespace pharos {

// The encoding is the type, the lengths, the number of padding zeros, these zeros, and the numbers. Objects of the
// store begin at a page, so the zeros align the numbers there to kAlignment, and they can be used in place.

namespace {
constexpr std::size_t kAlignment = 64;
constexpr auto kLastType = static_cast<std::uint8_t>(ml::DType::kF64);
}  // namespace

void Codec<ml::Array>::encode(const ml::Array& value, Encoder& to) {
  Codec<std::uint8_t>::encode(static_cast<std::uint8_t>(value.dtype()), to);
  Codec<std::vector<std::int64_t>>::encode(value.shape(), to);
  const std::size_t bytes = value.rows() * value.row_bytes();
  const std::size_t after = (to.size() + 1) % kAlignment;
  const std::size_t zeros = bytes < kSharedBytesMin || after == 0 ? 0 : kAlignment - after;
  constexpr std::byte kZeros[kAlignment]{};
  Codec<std::uint8_t>::encode(static_cast<std::uint8_t>(zeros), to);
  to.write(kZeros, zeros);
  if (value.is_dense()) {
    to.write_shared(Bytes{value.bytes().owner(), value.bytes().span().first(bytes)});
  } else {
    for (std::size_t row = 0; row < value.rows(); ++row) to.write(value.row(row).data(), value.row_bytes());
  }
}

ml::Array Codec<ml::Array>::decode(Decoder& from) {
  const auto type = Codec<std::uint8_t>::decode(from);
  auto shape = Codec<std::vector<std::int64_t>>::decode(from);
  const auto zeros = Codec<std::uint8_t>::decode(from);
  if (type > kLastType || zeros >= kAlignment) from.fail();
  from.take(zeros);
  if (from.failed()) return {};
  const auto dtype = static_cast<ml::DType>(type);
  const auto bytes = ml::bytes_of_shape(dtype, shape);
  if (!bytes) from.fail();
  Bytes numbers = from.take_shared(bytes.value_or(0));
  if (from.failed()) return {};
  if (reinterpret_cast<std::uintptr_t>(numbers.data()) % size_of(dtype) != 0) numbers = Bytes::copy_of(numbers.span());
  return {dtype, std::move(shape), std::move(numbers)};
}

}  // namespace pharos
