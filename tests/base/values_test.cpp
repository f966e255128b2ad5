#include <gtest/gtest.h>

#include <set>
#include <type_traits>
#include <unordered_set>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/random.hpp>

namespace pharos {
namespace {

TEST(Id, IsNeitherANumberNorAnotherKindOfId) {
  EXPECT_FALSE((std::is_convertible_v<std::uint64_t, NodeId>));
  EXPECT_FALSE((std::is_convertible_v<NodeId, std::uint64_t>));
  EXPECT_FALSE((std::is_constructible_v<NodeId, WorkerId>));
}

TEST(Id, ZeroIsNone) {
  EXPECT_FALSE(NodeId{});
  EXPECT_TRUE(NodeId{1});
  EXPECT_EQ(NodeId{}, NodeId{0});
}

TEST(Id, IsOrderedHashedAndPrintedAsSixteenDigits) {
  EXPECT_LT(ActorId{1}, ActorId{2});
  EXPECT_EQ((std::unordered_set<ActorId>{ActorId{1}, ActorId{1}, ActorId{2}}).size(), 2u);
  EXPECT_EQ(to_string(ActorId{0xabc}), "0000000000000abc");
  EXPECT_EQ(to_string(ActorId{~std::uint64_t{0}}), "ffffffffffffffff");
}

TEST(ByteCount, IsPrintedForPeople) {
  EXPECT_EQ(to_string(0_B), "0 B");
  EXPECT_EQ(to_string(512_B), "512 B");
  EXPECT_EQ(to_string(1023_B), "1023 B");
  EXPECT_EQ(to_string(1_KiB), "1 KiB");
  EXPECT_EQ(to_string(1536_KiB), "1.5 MiB");
  EXPECT_EQ(to_string(64_MiB), "64 MiB");
  EXPECT_EQ(to_string(3_GiB), "3 GiB");
  EXPECT_EQ(to_string(2048_GiB), "2 TiB");
  EXPECT_EQ(to_string(ByteCount{std::uint64_t{5} << 60}), "5120 PiB");
}

TEST(ByteCount, WhatRoundsUpToTheNextUnitIsPrintedInIt) {
  EXPECT_EQ(to_string(ByteCount{(1 << 20) - 1}), "1.0 MiB");
  EXPECT_EQ(to_string(ByteCount{(1 << 30) - 1}), "1.0 GiB");
}

TEST(ByteCount, AddsSubtractsAndMultiplies) {
  EXPECT_EQ(1_MiB + 1_KiB - 1024_B, 1_MiB);
  EXPECT_EQ(3_KiB * 2, 6_KiB);
  EXPECT_LT(1023_KiB, 1_MiB);
}

TEST(ManualClock, StandsStillUntilItIsToldToGoOn) {
  ManualClock clock;
  const TimePoint before = clock.now();
  EXPECT_EQ(clock.now(), before);
  clock.advance(std::chrono::seconds{3});
  EXPECT_EQ(clock.now() - before, std::chrono::seconds{3});
}

TEST(Random, GivesNoIdTwiceAndNeverZero) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random_u64());
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_FALSE(seen.contains(0));
}

}  // namespace
}  // namespace pharos
