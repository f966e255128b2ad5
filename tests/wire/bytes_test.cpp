#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <pharos/wire/codec.hpp>

#include "coding.hpp"

namespace pharos {
namespace {

Bytes block(std::size_t size, char fill = 'x') {
  return Bytes{std::string(size, fill)};
}

TEST(Bytes, AreMadeWithoutCopying) {
  std::vector<std::byte> vector(100);
  const std::byte* const at = vector.data();
  EXPECT_EQ(Bytes{std::move(vector)}.data(), at);
  std::string text(100, 'x');
  const char* const characters = text.data();
  const Bytes bytes{std::move(text)};
  EXPECT_EQ(static_cast<const void*>(bytes.data()), static_cast<const void*>(characters));
  const Bytes copy = bytes;
  EXPECT_EQ(copy.data(), bytes.data());
  EXPECT_TRUE(Bytes{}.empty());
  EXPECT_EQ(Bytes{std::string{}}.size(), 0u);
}

TEST(Bytes, LiveAsLongAsACopyOfThem) {
  auto owner = std::make_shared<const std::string>("kept");
  const std::weak_ptr<const std::string> watched = owner;
  Bytes bytes{owner, std::as_bytes(std::span{*owner})};
  owner.reset();
  Bytes copy = bytes;
  bytes = {};
  EXPECT_FALSE(watched.expired());
  copy = {};
  EXPECT_TRUE(watched.expired());
}

TEST(Bytes, AreEqualByTheirContent) {
  EXPECT_EQ(block(3), block(3));
  EXPECT_FALSE(block(3) == block(4));
  EXPECT_FALSE(block(3) == block(3, 'y'));
  EXPECT_EQ(Bytes{}, Bytes::copy_of({}));
}

TEST(Bytes, TravelLikeAVectorOfBytes) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, kSharedBytesMin - 1, kSharedBytesMin, 3 * kSharedBytesMin}) {
    EXPECT_EQ(round_trip(block(size)), block(size));
    EXPECT_EQ(encoded(block(size)), encoded(std::vector<std::byte>(size, std::byte{'x'})));
  }
}

TEST(Encoder, KeepsLargeBytesAsSegmentsOfTheirOwn) {
  const Bytes large = block(kSharedBytesMin), larger = block(2 * kSharedBytesMin, 'y');
  Encoder encoder;
  encoder.write("a", 1);
  encoder.write_shared(large);
  encoder.write_shared(larger);
  encoder.write("bc", 2);
  encoder.write_shared(block(10, 'z'));
  ASSERT_TRUE(encoder.has_shared());
  EXPECT_EQ(encoder.size(), 3 * kSharedBytesMin + 13);

  const auto segments = encoder.segments();
  ASSERT_EQ(segments.size(), 4u);
  EXPECT_EQ(segments[0].bytes.size(), 1u);
  EXPECT_EQ(segments[0].shared, nullptr);
  EXPECT_EQ(segments[1].bytes.data(), large.data());
  EXPECT_EQ(segments[1].shared->owner(), large.owner());
  EXPECT_EQ(segments[2].bytes.data(), larger.data());
  EXPECT_EQ(segments[3].bytes.size(), 12u);

  std::string flat =
      "a" + std::string(kSharedBytesMin, 'x') + std::string(2 * kSharedBytesMin, 'y') + "bc" + std::string(10, 'z');
  EXPECT_EQ(Bytes{encoder.flattened()}, Bytes{flat});
}

TEST(Encoder, HoldsSharedBytesUntilItIsCleared) {
  auto owner = std::make_shared<const std::string>(kSharedBytesMin, 'x');
  const std::weak_ptr<const std::string> watched = owner;
  Encoder encoder;
  encoder.write_shared(Bytes{owner, std::as_bytes(std::span{*owner})});
  owner.reset();
  EXPECT_FALSE(watched.expired());
  encoder.clear();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(encoder.size(), 0u);
  EXPECT_TRUE(encoder.bytes().empty());
  EXPECT_TRUE(encoder.segments().empty());
}

TEST(EncoderDeathTest, HasNoOnePieceOfBytesWhereSomeAreShared) {
  Encoder encoder;
  encoder.write_shared(block(kSharedBytesMin));
  EXPECT_DEATH(encoder.bytes(), "shared_");
}

TEST(Decoder, SharesLargeBytesWithTheOwnerOfTheBuffer) {
  for (const std::size_t size : {kSharedBytesMin - 1, kSharedBytesMin}) {
    const auto buffer = std::make_shared<const std::vector<std::byte>>(encoded(block(size)));
    Decoder decoder{*buffer, buffer};
    const Bytes bytes = Codec<Bytes>::decode(decoder);
    EXPECT_FALSE(decoder.failed());
    EXPECT_EQ(bytes, block(size));
    EXPECT_EQ(bytes.data() == buffer->data() + 8, size >= kSharedBytesMin);
  }
}

TEST(Decoder, CopiesBytesWhereNobodyOwnsTheBuffer) {
  auto buffer = encoded(block(kSharedBytesMin));
  Decoder decoder{buffer};
  const Bytes bytes = Codec<Bytes>::decode(decoder);
  buffer.assign(buffer.size(), std::byte{0});
  EXPECT_EQ(bytes, block(kSharedBytesMin));
}

}  // namespace

/// Only the codecs of handles use it.
class CodecContext {
 public:
  int handles = 0;
};
struct Handle {};
template <>
struct Codec<Handle> {
  static void encode(const Handle&, Encoder& to) {
    ++to.context()->handles;
    to.write("h", 1);
  }
  static Handle decode(Decoder& from) {
    from.context()->handles += static_cast<int>(from.take(1).size());
    return {};
  }
};

namespace {

TEST(CodecContext, ReachesCodecsInside) {
  CodecContext context;
  Encoder encoder;
  encoder.set_context(&context);
  Codec<std::vector<Handle>>::encode(std::vector<Handle>(3), encoder);
  EXPECT_EQ(context.handles, 3);
  Decoder decoder{encoder.bytes()};
  decoder.set_context(&context);
  Codec<std::vector<Handle>>::decode(decoder);
  EXPECT_EQ(context.handles, 6);
}

}  // namespace
}  // namespace pharos
