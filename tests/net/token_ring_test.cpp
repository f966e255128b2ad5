#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include <pharos/base/random.hpp>
#include <pharos/net/token_ring.hpp>

namespace pharos::net {
namespace {

constexpr std::uint64_t kNow = 1'000'000;

Key some_token() {
  Key token;
  fill_random(token);
  return token;
}

class TokenRingTest : public testing::Test {
 protected:
  const Key first_ = some_token();
  const Key second_ = some_token();
  TokenRing ring_{first_};
};

TEST_F(TokenRingTest, TheEarlierTokenIsValidUntilItsTimeIsOver) {
  EXPECT_TRUE(ring_.take(seal(second_, first_), kNow + 10, kNow));
  EXPECT_EQ(ring_.present(), second_);
  EXPECT_EQ(ring_.valid(kNow + 9), (std::vector{second_, first_}));
  EXPECT_EQ(ring_.valid(kNow + 10), std::vector{second_});
  EXPECT_EQ(ring_.find(name_of(first_), kNow + 9), first_);
  EXPECT_EQ(ring_.find(name_of(first_), kNow + 10), std::nullopt);
  EXPECT_EQ(ring_.find(name_of(second_), kNow + 10), second_);
  EXPECT_EQ(ring_.find(0, kNow), std::nullopt);
}

TEST_F(TokenRingTest, WhoHasMissedOneTakesBothInTheirOrder) {
  const Key third = some_token();
  const auto to_second = seal(second_, first_);
  const auto to_third = seal(third, second_);
  EXPECT_FALSE(ring_.take(to_third, kNow + 10, kNow)) << "it is sealed with a token that is not known here";
  EXPECT_TRUE(ring_.take(to_second, kNow + 10, kNow));
  EXPECT_TRUE(ring_.take(to_third, kNow + 10, kNow));
  EXPECT_EQ(ring_.valid(kNow), (std::vector{third, second_, first_}));
  const TokenRing all = ring_;
  EXPECT_FALSE(ring_.take(to_second, kNow + 10, kNow)) << "it is known";
  EXPECT_FALSE(ring_.take(to_third, kNow + 10, kNow));
  EXPECT_EQ(ring_, all);
}

TEST_F(TokenRingTest, NoEarlierTokenIsValidLongerThanTheLastNewOneSays) {
  ASSERT_TRUE(ring_.take(seal(second_, first_), kNow + 10, kNow));
  const Key third = some_token();
  ASSERT_TRUE(ring_.take(seal(third, second_), kNow, kNow));
  EXPECT_EQ(ring_.valid(kNow), std::vector{third});
  EXPECT_TRUE(ring_.earlier().empty());
}

TEST_F(TokenRingTest, ATokenThatIsNotValidAnyMoreMakesNoNewOne) {
  ASSERT_TRUE(ring_.take(seal(second_, first_), kNow + 10, kNow));
  EXPECT_FALSE(ring_.take(seal(some_token(), first_), kNow + 99, kNow + 10));
  EXPECT_EQ(ring_.present(), second_);
}

TEST_F(TokenRingTest, EachChangedBitOfASealedTokenIsNoticed) {
  const auto sealed = seal(second_, first_);
  ASSERT_EQ(sealed.size(), kSealedBytes);
  for (std::size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    auto changed = sealed;
    changed[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(ring_.take(changed, kNow + 10, kNow)) << bit;
  }
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, sealed.size() - 1}) {
    EXPECT_FALSE(ring_.take(std::span{sealed}.first(size), kNow + 10, kNow)) << size;
  }
  EXPECT_NE(seal(second_, first_), sealed) << "a token is never sealed twice alike";
}

TEST_F(TokenRingTest, OnlySoManyEarlierTokensAreKept) {
  Key present = first_;
  for (std::size_t i = 0; i < 2 * TokenRing::kEarlierMax; ++i) {
    const Key next = some_token();
    ASSERT_TRUE(ring_.take(seal(next, present), kNow + 10, kNow));
    present = next;
  }
  EXPECT_EQ(ring_.earlier().size(), TokenRing::kEarlierMax);
  EXPECT_EQ(TokenRing(first_, std::vector<TokenRing::Earlier>(99)).earlier().size(), TokenRing::kEarlierMax);
}

TEST(KeyNames, DifferAndAreNotTheKey) {
  std::set<std::uint64_t> names;
  for (int i = 0; i < 1000; ++i) names.insert(name_of(some_token()));
  EXPECT_EQ(names.size(), 1000U);
}

}  // namespace
}  // namespace pharos::net
