#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <pharos/wire/shared_span.hpp>

#include "coding.hpp"

namespace pharos {
namespace {

/// A LargeRoom that provides any size, or none if `there` is false.
class TestRoom final : public LargeRoom {
 public:
  explicit TestRoom(bool there = true) : there_{there} {}
  void write(std::byte* to, const void* from, std::size_t count) override { std::memcpy(to, from, count); }
  std::byte* make(std::size_t bytes, std::size_t) override {
    memory.assign(bytes, std::byte{0xee});
    ++made;
    return there_ ? memory.data() : nullptr;
  }
  std::vector<std::byte> memory;
  int made = 0;

 private:
  const bool there_;
};

template <class T>
void encode_with(const T& value, Encoder& to) {
  do {
    Codec<T>::encode(value, to);
  } while (to.again());
}

TEST(LargeRoom, ASmallValueDoesNotGoThere) {
  TestRoom room;
  Encoder encoder;
  encoder.set_large_room(&room);
  const std::string small(kInlineBytesMax - sizeof(std::uint64_t), 'x');
  encode_with(small, encoder);
  EXPECT_FALSE(encoder.in_room());
  EXPECT_EQ(room.made, 0);
  EXPECT_EQ(encoder.flattened(), encoded(small));
}

TEST(LargeRoom, ALargeValueIsWrittenThereAndNowhereElse) {
  TestRoom room;
  Encoder encoder;
  encoder.set_large_room(&room);
  const auto check = [&](const auto& value) {
    encoder.clear();
    encode_with(value, encoder);
    EXPECT_TRUE(encoder.in_room());
    EXPECT_FALSE(encoder.failed());
    EXPECT_EQ(room.memory, encoded(value));
  };
  check(std::string(kInlineBytesMax, 'x'));
  check(std::vector<double>(100'000, 1.5));
  check(std::vector<std::string>(20'000, "many small ones"));
  check(Bytes{std::string(300'000, 'b')});
  check(std::pair{std::string(90'000, 'a'), std::map<int, Bytes>{{1, Bytes{std::string(20'000, 'b')}}, {2, {}}}});
  EXPECT_EQ(room.made, 5);
  encoder.clear();
  encode_with(7, encoder);
  EXPECT_FALSE(encoder.in_room());
  EXPECT_EQ(encoder.flattened(), encoded(7));
}

TEST(LargeRoom, WithoutOneAValueStaysInTheEncoder) {
  Encoder encoder;
  const std::string large(3 * kInlineBytesMax, 'x');
  encode_with(large, encoder);
  EXPECT_FALSE(encoder.in_room());
  EXPECT_EQ(encoder.flattened(), encoded(large));
}

TEST(LargeRoom, WhereThereIsNoRoomEncodingFails) {
  TestRoom room{false};
  Encoder encoder;
  encoder.set_large_room(&room);
  encode_with(std::string(kInlineBytesMax, 'x'), encoder);
  EXPECT_EQ(encoder.failure(), CodecFailure::kNoRoom);
  encoder.clear();
  EXPECT_FALSE(encoder.failed());
}

/// Encodes to a different size each time.
struct Fickle {
  mutable std::size_t size = 0;
  std::ptrdiff_t step = 0;
};

}  // namespace

template <>
struct Codec<Fickle> {
  static void encode(const Fickle& value, Encoder& to) {
    Codec<std::string>::encode(std::string(value.size, 'x'), to);
    value.size += static_cast<std::size_t>(value.step);
  }
  static Fickle decode(Decoder& from) { return {Codec<std::string>::decode(from).size()}; }
};

namespace {

TEST(LargeRoom, AValueThatChangesInBetweenFails) {
  for (const std::ptrdiff_t step : {-1, 1}) {
    TestRoom room;
    Encoder encoder;
    encoder.set_large_room(&room);
    encode_with(Fickle{2 * kInlineBytesMax, step}, encoder);
    EXPECT_EQ(encoder.failure(), CodecFailure::kChanged);
  }
}

TEST(DecoderParts, ValuesLieInOnePartEach) {
  const auto a = encoded(std::string{"first"});
  const auto b = encoded(std::vector<int>{1, 2, 3});
  const auto c = encoded(7);
  const std::vector<Decoder::Part> parts{{a, nullptr}, {b, nullptr}, {c, nullptr}};
  Decoder decoder{parts};
  EXPECT_EQ(decoder.left(), a.size() + b.size() + c.size());
  EXPECT_EQ(Codec<std::string>::decode(decoder), "first");
  EXPECT_EQ(decoder.left(), b.size() + c.size());
  EXPECT_EQ(Codec<std::vector<int>>::decode(decoder), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(Codec<int>::decode(decoder), 7);
  EXPECT_FALSE(decoder.failed());
  EXPECT_EQ(decoder.left(), 0);
}

TEST(DecoderParts, ManyElementsMayLieInPartsOfTheirOwn) {
  // The elements are accepted although the part that holds their count has fewer bytes left than the count needs.
  const auto all = encoded(std::vector<std::string>(50, "in a part of its own"));
  const auto one = encoded(std::string{"in a part of its own"});
  std::vector<Decoder::Part> parts{{std::span{all}.first(sizeof(std::uint64_t)), nullptr}};
  for (int i = 0; i < 50; ++i) parts.push_back({one, nullptr});
  Decoder decoder{parts};
  EXPECT_EQ(Codec<std::vector<std::string>>::decode(decoder).size(), 50u);
  EXPECT_FALSE(decoder.failed());
  EXPECT_EQ(decoder.left(), 0);
}

TEST(DecoderParts, AValueThatEndsWithItsPartIsTruncated) {
  auto a = encoded(std::string(100, 'x'));
  a.resize(50);
  const auto b = encoded(std::string(1000, 'y'));
  const std::vector<Decoder::Part> parts{{a, nullptr}, {b, nullptr}};
  Decoder decoder{parts};
  static_cast<void>(Codec<std::string>::decode(decoder));
  EXPECT_TRUE(decoder.failed());
  EXPECT_EQ(decoder.left(), 0);
}

TEST(DecoderParts, LargeBytesShareTheOwnerOfTheirPart) {
  auto owner = std::make_shared<const std::vector<std::byte>>(encoded(Bytes{std::string(5000, 'x')}));
  const auto before = encoded(1);
  std::vector<Decoder::Part> parts{{before, nullptr}, {*owner, owner}};
  Decoder decoder{parts};
  EXPECT_EQ(Codec<int>::decode(decoder), 1);
  const Bytes bytes = Codec<Bytes>::decode(decoder);
  EXPECT_EQ(bytes.data(), owner->data() + sizeof(std::uint64_t));
  const std::weak_ptr watched = owner;
  owner.reset();
  parts.clear();
  EXPECT_FALSE(watched.expired());
}

TEST(SharedSpanTest, TravelsLikeAVectorAndIsAView) {
  std::vector<float> values(10'000);
  std::iota(values.begin(), values.end(), 0.0F);
  const SharedSpan<float> span{values};
  EXPECT_EQ(encoded(span), encoded(values));
  const auto owner = std::make_shared<const std::vector<std::byte>>(encoded(values));
  Decoder decoder{*owner, owner};
  const auto view = Codec<SharedSpan<float>>::decode(decoder);
  EXPECT_EQ(static_cast<const void*>(view.data()), static_cast<const void*>(owner->data() + sizeof(std::uint64_t)));
  EXPECT_TRUE(std::equal(view.begin(), view.end(), values.begin(), values.end()));
  EXPECT_TRUE(round_trip(SharedSpan<float>{}).empty());
}

TEST(SharedSpanTest, IsCopiedWhereItsElementsWouldNotBeAligned) {
  const auto bytes = encoded(std::vector<double>(1000, 0.5));
  auto shifted = std::make_shared<std::vector<std::byte>>(1 + bytes.size());
  std::memcpy(shifted->data() + 1, bytes.data(), bytes.size());
  Decoder decoder{std::span{*shifted}.subspan(1), shifted};
  const auto span = Codec<SharedSpan<double>>::decode(decoder);
  ASSERT_EQ(span.size(), 1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(span.data()) % alignof(double), 0);
  EXPECT_EQ(span[999], 0.5);
}

TEST(SharedSpanTest, OfMoreElementsThanThereAreIsRefused) {
  auto bytes = encoded(std::vector<double>(10, 0.5));
  const std::uint64_t count = ~std::uint64_t{0} / 4;
  std::memcpy(bytes.data(), &count, sizeof count);
  Decoder decoder{bytes};
  EXPECT_TRUE(Codec<SharedSpan<double>>::decode(decoder).empty());
  EXPECT_TRUE(decoder.failed());
}

}  // namespace
}  // namespace pharos
