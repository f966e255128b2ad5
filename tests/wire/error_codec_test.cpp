#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <pharos/wire/error_codec.hpp>

#include "seed.hpp"

namespace pharos {
namespace {

std::vector<std::byte> bytes_of(const Error& error) {
  Encoder encoder;
  Codec<Error>::encode(error, encoder);
  return {encoder.bytes().begin(), encoder.bytes().end()};
}

Error decoded(std::span<const std::byte> bytes) {
  Decoder decoder{bytes};
  return Codec<Error>::decode(decoder);
}

void expect_same(const Error& a, const Error& b) {
  EXPECT_EQ(a.code(), b.code());
  EXPECT_EQ(a.outcome(), b.outcome());
  EXPECT_EQ(a.message(), b.message());
  EXPECT_EQ(a.remedy(), b.remedy());
  EXPECT_EQ(a.context(), b.context());
  ASSERT_EQ(a.thrown().has_value(), b.thrown().has_value());
  if (!a.thrown()) return;
  EXPECT_EQ(a.thrown()->type, b.thrown()->type);
  EXPECT_EQ(a.thrown()->value, b.thrown()->value);
}

const Error kError = Error{ErrorCode::kActorDied, "the actor is gone", "Start it again."}
                         .with("calling \"counter\"")
                         .with("training")
                         .with_outcome(Outcome::kUnknown)
                         .with_thrown({"9Overdrawn", std::vector<std::byte>(40, std::byte{7})});

TEST(ErrorCodec, AnErrorComesBackWhole) {
  expect_same(decoded(bytes_of(kError)), kError);
}

TEST(ErrorCodec, EveryCodeAndOutcomeComesBack) {
  for (std::uint8_t code = 1; code <= static_cast<std::uint8_t>(ErrorCode::kInternal); ++code) {
    for (const auto outcome : {Outcome::kNotStarted, Outcome::kFailed, Outcome::kUnknown}) {
      const Error error = Error{static_cast<ErrorCode>(code), "x"}.with_outcome(outcome);
      expect_same(decoded(bytes_of(error)), error);
    }
  }
}

TEST(ErrorCodec, OfALongContextTheInnermostLinesArrive) {
  Error error{ErrorCode::kInternal, "x"};
  for (int i = 0; i < 100; ++i) error = std::move(error).with(std::to_string(i));
  const Error back = decoded(bytes_of(error));
  ASSERT_EQ(back.context().size(), 64u);
  EXPECT_EQ(back.context().front(), "0");
  EXPECT_EQ(back.context().back(), "63");
}

TEST(ErrorCodec, AnExceptionOfTooManyBytesIsCorrupt) {
  const auto of_size = [](std::size_t size) {
    return Error{ErrorCode::kUserError, "x"}.with_thrown({"9Overdrawn", std::vector<std::byte>(size)});
  };
  expect_same(decoded(bytes_of(of_size(Error::Thrown::kBytesMax))), of_size(Error::Thrown::kBytesMax));
  EXPECT_EQ(decoded(bytes_of(of_size(Error::Thrown::kBytesMax + 1))).code(), ErrorCode::kCorrupt);
}

TEST(ErrorCodec, EveryTruncationIsCorrupt) {
  const auto whole = bytes_of(kError);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Error error = decoded(std::span{whole}.first(size));
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << size;
    EXPECT_TRUE(error.context().empty());
  }
}

TEST(ErrorCodec, CodesAndOutcomesThatDoNotExistAreCorrupt) {
  auto bytes = bytes_of(Error{ErrorCode::kUserError, "x"});
  for (const int code : {0, static_cast<int>(ErrorCode::kInternal) + 1, 255}) {
    auto bad = bytes;
    bad[0] = static_cast<std::byte>(code);
    EXPECT_EQ(decoded(bad).code(), ErrorCode::kCorrupt) << code;
  }
  bytes[1] = std::byte{3};
  EXPECT_EQ(decoded(bytes).code(), ErrorCode::kCorrupt);
}

using RandomErrorCodec = SeededTest;

TEST_F(RandomErrorCodec, MutatedErrorsDecodeOrAreCorrupt) {
  const auto whole = bytes_of(kError);
  for (int round = 0; round < 20'000; ++round) {
    auto bad = whole;
    for (std::size_t i = between(1, 4); i > 0; --i) bad[between(0, bad.size() - 1)] = static_cast<std::byte>(random_());
    bad.resize(between(0, bad.size()));
    const Error error = decoded(bad);
    ASSERT_LE(error.context().size(), 64u);
    ASSERT_NE(to_string(error.code()), "unknown error");
  }
}

}  // namespace
}  // namespace pharos
