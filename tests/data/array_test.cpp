// Arrays as bytes.

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/array.hpp>

#include "coding.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

constexpr DType kTypes[] = {DType::kU8,  DType::kI8,   DType::kI32, DType::kI64,
                            DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

Bytes counted(std::size_t bytes) {
  std::vector<std::byte> numbers(bytes);
  for (std::size_t i = 0; i < bytes; ++i) numbers[i] = static_cast<std::byte>(i % 251);
  return Bytes{std::move(numbers)};
}
Array counted(DType dtype, std::vector<std::int64_t> shape) {
  const auto elements = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies{});
  return {dtype, std::move(shape), counted(static_cast<std::size_t>(elements) * size_of(dtype))};
}

void expect_same(const Array& array, const Array& expected) {
  EXPECT_EQ(array.dtype(), expected.dtype());
  EXPECT_EQ(array.shape(), expected.shape());
  EXPECT_TRUE(array.is_dense());
  const std::size_t bytes = expected.rows() * expected.row_bytes();
  EXPECT_EQ(array.bytes(), (Bytes{nullptr, expected.dense().bytes().span().first(bytes)}))
      << describe(expected.dtype(), expected.shape());
}

/// An encoded array, as the codec writes it. A test makes one field wrong.
struct Written {
  std::uint8_t type = static_cast<std::uint8_t>(DType::kI32);
  std::vector<std::int64_t> shape{3, 4};
  std::uint8_t zeros = 0;
  std::size_t bytes = 48;

  std::vector<std::byte> encoded() const {
    Encoder to;
    Codec<std::uint8_t>::encode(type, to);
    Codec<std::vector<std::int64_t>>::encode(shape, to);
    Codec<std::uint8_t>::encode(zeros, to);
    to.write(counted(zeros + bytes).data(), zeros + bytes);
    return to.flattened();
  }
};
CodecFailure failure_of(const Written& written) {
  return pharos::failure_of<Array>(written.encoded());
}

TEST(Array, OfAVectorHasItsNumbersWhereTheyLie) {
  std::vector<float> numbers{1, 2, 3, 4, 5, 6};
  const float* const place = numbers.data();
  const Array table = Array::of(std::move(numbers), {2, 3});
  EXPECT_EQ(table.dtype(), DType::kF32);
  EXPECT_EQ(table.shape(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(table.values<float>().data(), place);
  const Array rows = Array::of(std::vector<std::uint8_t>{1, 2, 3});
  EXPECT_EQ(rows.shape(), std::vector<std::int64_t>{3});
  EXPECT_EQ(rows.values<std::uint8_t>()[2], 3);
  EXPECT_EQ(Array::of(std::vector<double>{2.5}, {}).values<double>()[0], 2.5);
  EXPECT_EQ(Array::of(std::vector<double>{}).rows(), 0U);
  EXPECT_SAYS(message_of<InvalidArgument>([] { Array::of(std::vector<double>{1, 2, 3}, {2}); }), "does not take 3");
  EXPECT_SAYS(message_of<InvalidArgument>([] { Array::of(std::vector<double>{1, 2, 3}, {4}); }), "does not fit");
}

TEST(ArrayCodec, OfEachTypeAndShapeComesBack) {
  for (const DType dtype : kTypes) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {0}, {3}, {3, 4}, {2, 0, 5}, {0, 7}, {2, 3, 4, 5}, {70, 100}}) {
      const Array array = counted(dtype, shape);
      expect_same(round_trip(array), array);
    }
  }
  expect_same(round_trip(Array{}), Array{});
  const NamedArray named = round_trip(NamedArray{"odd", counted(DType::kF32, {70, 100})});
  EXPECT_EQ(named.name, "odd");
  expect_same(named.array, counted(DType::kF32, {70, 100}));
}

TEST(ArrayCodec, RowsThatLieApartComeWithoutWhatIsBetweenThem) {
  for (const std::int64_t rows : {0, 1, 5, 2000}) {
    const Array apart{DType::kI32, {rows, 3}, counted(2000 * 20), 20};
    expect_same(round_trip(apart), apart);
    if (rows > 1) {
      EXPECT_EQ(encoded(apart).size(), encoded(apart.dense()).size());
    }
  }
  // A part of an array's memory, and memory that is longer than its array.
  const Array part = counted(DType::kI64, {1000, 5}).part(100, 300);
  expect_same(round_trip(part), part);
  const Array first{DType::kI64, {10}, counted(10'000)};
  EXPECT_EQ(round_trip(first).bytes().size(), 80U);
}

/// The array follows a text of each length, in memory that may be kept for the values. That memory may begin at any
/// address.
TEST(ArrayCodec, NumbersStayWhereTheyHaveArrivedIfTheyMayLieThere) {
  const Array array = counted(DType::kF64, {100, 10});
  for (std::size_t before = 0; before < 70; ++before) {
    Encoder to;
    Codec<std::string>::encode(std::string(before, 'x'), to);
    Codec<Array>::encode(array, to);
    for (const std::size_t begin : {0, 64, 3, 8}) {
      struct alignas(64) Line {
        std::byte bytes[64];
      };
      const auto memory = std::make_shared<std::vector<Line>>((begin + to.size()) / sizeof(Line) + 1);
      std::byte* const at = memory->front().bytes + begin;
      to.copy_to(at);
      Decoder from{{at, to.size()}, memory};
      Codec<std::string>::decode(from);
      const Array arrived = Codec<Array>::decode(from);
      ASSERT_FALSE(from.failed());
      EXPECT_EQ(from.left(), 0U);
      expect_same(arrived, array);
      EXPECT_EQ(arrived.values<double>().size(), 1000U);
      EXPECT_EQ(arrived.bytes().owner() == memory, begin % 8 == 0) << before << ' ' << begin;
    }
  }
}

TEST(ArrayCodec, BytesThatAreNoArrayAreRefused) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(failure_of(Written{}), CodecFailure::kNone);
  EXPECT_EQ(failure_of({.zeros = 63}), CodecFailure::kNone);
  EXPECT_EQ(failure_of({.zeros = 64}), CodecFailure::kInvalid);
  EXPECT_EQ(failure_of({.zeros = 255}), CodecFailure::kInvalid);
  for (int type = 8; type < 256; ++type) {
    EXPECT_EQ(failure_of({.type = static_cast<std::uint8_t>(type)}), CodecFailure::kInvalid) << type;
  }
  EXPECT_EQ(failure_of({.shape = {-1}}), CodecFailure::kInvalid);
  EXPECT_EQ(failure_of({.shape = {-3, -4}}), CodecFailure::kInvalid);
  EXPECT_EQ(failure_of({.shape = {0, -1}}), CodecFailure::kInvalid);
  EXPECT_EQ(failure_of({.shape = {kMost, kMost}}), CodecFailure::kInvalid);
  EXPECT_EQ(failure_of({.shape = {kMost, 4}}), CodecFailure::kInvalid);
  EXPECT_EQ(failure_of({.shape = {0, kMost, kMost}}), CodecFailure::kInvalid);
  EXPECT_EQ(failure_of({.shape = {std::int64_t{1} << 60}}), CodecFailure::kTruncated);
  EXPECT_EQ(failure_of({.shape = {13}}), CodecFailure::kTruncated);
  EXPECT_EQ(failure_of({.type = static_cast<std::uint8_t>(DType::kI64)}), CodecFailure::kTruncated);
}

/// Each byte of the head is replaced by each other value: the array is refused, or it has the bytes of its shape.
TEST(ArrayCodec, AFlippedByteIsRefusedOrAnotherArray) {
  const std::vector<std::byte> whole = Written{}.encoded();
  std::size_t refusals = 0;
  for (std::size_t place = 0; place < whole.size() - Written{}.bytes; ++place) {
    for (int change = 1; change < 256; ++change) {
      std::vector<std::byte> flipped = whole;
      flipped[place] ^= static_cast<std::byte>(change);
      Decoder from{flipped};
      const Array array = Codec<Array>::decode(from);
      if (from.failed()) {
        ++refusals;
        EXPECT_EQ(array.bytes().size(), 0U);
      } else {
        EXPECT_EQ(array.elements() * size_of(array.dtype()), array.bytes().size());
        EXPECT_LE(array.bytes().size(), whole.size());
      }
    }
  }
  EXPECT_GT(refusals, 1000U);
}

}  // namespace
}  // namespace pharos::ml
