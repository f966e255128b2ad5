#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/wire/codec.hpp>
#include <pharos/wire/id_codec.hpp>

#include "coding.hpp"
#include "seed.hpp"

namespace pharos {
namespace {

template <class T>
void expect_limits_round_trip() {
  using Limits = std::numeric_limits<T>;
  for (const T value : {T{0}, T{1}, Limits::min(), Limits::max(), Limits::lowest()}) {
    EXPECT_EQ(round_trip(value), value);
  }
  EXPECT_EQ(encoded(T{1}).size(), sizeof(T));
}

TEST(Codec, NumbersComeBack) {
  expect_limits_round_trip<std::int8_t>();
  expect_limits_round_trip<std::uint8_t>();
  expect_limits_round_trip<std::int16_t>();
  expect_limits_round_trip<std::uint16_t>();
  expect_limits_round_trip<std::int32_t>();
  expect_limits_round_trip<std::uint32_t>();
  expect_limits_round_trip<std::int64_t>();
  expect_limits_round_trip<std::uint64_t>();
  expect_limits_round_trip<float>();
  expect_limits_round_trip<double>();
  EXPECT_TRUE(std::isnan(round_trip(std::nan(""))));
  EXPECT_TRUE(std::signbit(round_trip(-0.0)));
}

enum class Colour : std::uint8_t { kRed = 1, kBlue = 200 };
struct Point {
  double x = 0;
  std::int32_t y = 0;
  bool operator==(const Point&) const = default;
};
TEST(Codec, EnumsAndStructsOfValuesComeBack) {
  EXPECT_EQ(round_trip(Colour::kBlue), Colour::kBlue);
  EXPECT_EQ(encoded(Colour::kBlue).size(), 1u);
  EXPECT_EQ(round_trip(Point{1.5, -3}), (Point{1.5, -3}));
  EXPECT_EQ(round_trip(ActorId{9}), ActorId{9});
  EXPECT_EQ(round_trip(std::array<int, 3>{1, 2, 3}), (std::array<int, 3>{1, 2, 3}));
}

TEST(Codec, ABoolIsOneByteThatIsZeroOrOne) {
  EXPECT_TRUE(round_trip(true));
  EXPECT_FALSE(round_trip(false));
  for (int byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<std::byte>(byte);
    Decoder decoder{std::span{&value, 1}};
    EXPECT_EQ(Codec<bool>::decode(decoder), byte == 1);
    EXPECT_EQ(decoder.failed(), byte > 1) << byte;
  }
}

TEST(Codec, StringsComeBackWithAllTheirBytes) {
  using namespace std::string_literals;
  for (const std::string& text : {""s, "a"s, "with\0zeros\0"s, "\xff\xfe"s, std::string(100'000, 'x')}) {
    EXPECT_EQ(round_trip(text), text);
  }
}

TEST(Codec, AnEmptyViewThatPointsNowhereIsAnEmptyString) {
  Encoder encoder;
  Codec<std::string>::encode(std::string_view{}, encoder);
  Decoder decoder{encoder.bytes()};
  EXPECT_EQ(Codec<std::string>::decode(decoder), "");
  EXPECT_FALSE(decoder.failed());
  Encoder nothing;
  nothing.write(nullptr, 0);
  EXPECT_TRUE(nothing.bytes().empty());
}

TEST(Codec, EveryTruncationFails) {
  Encoder encoder;
  Codec<std::int32_t>::encode(5, encoder);
  Codec<std::string>::encode("some text", encoder);
  Codec<bool>::encode(true, encoder);
  Codec<Point>::encode(Point{1, 2}, encoder);
  const auto decode_all = [](Decoder& from) {
    const auto number = Codec<std::int32_t>::decode(from);
    auto text = Codec<std::string>::decode(from);
    const auto truth = Codec<bool>::decode(from);
    const auto point = Codec<Point>::decode(from);
    return std::tuple{number, std::move(text), truth, point};
  };
  const auto whole = encoder.bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> cut{whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)};
    Decoder decoder{cut};
    decode_all(decoder);
    EXPECT_TRUE(decoder.failed()) << size;
  }
  Decoder decoder{whole};
  EXPECT_EQ(decode_all(decoder), (std::tuple{5, std::string{"some text"}, true, Point{1, 2}}));
  EXPECT_FALSE(decoder.failed());
}

TEST(Codec, AStringThatClaimsMoreThanThereIsAllocatesNothing) {
  for (const std::uint64_t claimed : {std::uint64_t{4}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    Encoder encoder;
    encoder.write(&claimed, sizeof claimed);
    encoder.write("abc", 3);
    Decoder decoder{encoder.bytes()};
    EXPECT_EQ(Codec<std::string>::decode(decoder), "");
    EXPECT_TRUE(decoder.failed());
  }
}

TEST(Decoder, GivesZerosAfterItsFirstFailure) {
  const std::vector<std::byte> bytes(6, std::byte{0xff});
  Decoder decoder{bytes};
  EXPECT_EQ(Codec<std::uint64_t>::decode(decoder), 0u);
  EXPECT_TRUE(decoder.failed());
  EXPECT_EQ(Codec<std::uint8_t>::decode(decoder), 0u) << "there are bytes left, but they are none of that field's";
  EXPECT_EQ(decoder.left(), 0u);
  EXPECT_TRUE(decoder.take(1).empty());
}

TEST(Encoder, KeepsWhatItHoldsAsItGrows) {
  Encoder encoder;
  for (std::uint32_t i = 0; i < 10'000; ++i) Codec<std::uint32_t>::encode(i, encoder);
  Decoder decoder{encoder.bytes()};
  for (std::uint32_t i = 0; i < 10'000; ++i) ASSERT_EQ(Codec<std::uint32_t>::decode(decoder), i);
  encoder.clear();
  EXPECT_TRUE(encoder.bytes().empty());
}

using GarbageCodec = SeededTest;

TEST_F(GarbageCodec, AnyBytesDecodeOrFailWithoutReadingPastTheirEnd) {
  for (int round = 0; round < 20'000; ++round) {
    const auto garbage = bytes(between(0, 40));
    Decoder decoder{garbage};
    while (decoder.left() != 0 && !decoder.failed()) {
      switch (between(0, 3)) {
        case 0: Codec<std::string>::decode(decoder); break;
        case 1: Codec<bool>::decode(decoder); break;
        case 2: Codec<Point>::decode(decoder); break;
        default: Codec<std::uint16_t>::decode(decoder); break;
      }
    }
    ASSERT_LE(decoder.left(), garbage.size());
  }
}

}  // namespace
}  // namespace pharos
