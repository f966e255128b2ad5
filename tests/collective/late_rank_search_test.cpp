// The search for the rank that holds the others up, without connections: the test is the other ranks and the clock.

#include "stream/late_rank_search.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "says.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

const std::string kBarrier = "barrier, operation 7,";

class LateRank : public testing::Test {
 protected:
  /// Lets the time for answers pass.
  std::optional<Error> go_on() { return search.go_on(kBarrier, now += 1s); }

  std::optional<std::uint32_t> missing = 1;  // the rank that this one waits for
  std::vector<std::uint32_t> asked;
  TimePoint now{};
  LateRankSearch search{0, 4, [this] { return missing; }, [this](std::uint32_t rank) { asked.push_back(rank); }};
};

TEST_F(LateRank, IsNotLookedForWhileNothingIsOverdue) {
  EXPECT_FALSE(search.go_on(std::nullopt, now));
  EXPECT_FALSE(search.next());
  EXPECT_TRUE(asked.empty());
}

TEST_F(LateRank, IsTheEndOfTheChainOfWaits) {
  ASSERT_FALSE(go_on());
  search.answered(1, 2);
  search.answered(2, 3);
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{1, 2, 3}));
  ASSERT_FALSE(go_on());
  search.answered(1, 3);
  const auto found = go_on();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->code(), ErrorCode::kDeadlineExceeded);
  EXPECT_SAYS(found->message(), "barrier, operation 7, waits for rank 3");
}

TEST_F(LateRank, IsAskedTwiceBecauseMessagesMayHaveBeenOnTheirWay) {
  ASSERT_FALSE(go_on());
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{1}));
  missing = 2;
  ASSERT_FALSE(go_on());
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_SAYS(go_on()->message(), "waits for rank 2");
}

TEST_F(LateRank, HasTimeToAnswer) {
  ASSERT_FALSE(search.go_on(kBarrier, now));
  const auto next = search.next();
  ASSERT_TRUE(next);
  EXPECT_FALSE(search.go_on(kBarrier, *next - 1ns));
  EXPECT_EQ(asked.size(), 1U);
  EXPECT_FALSE(search.go_on(kBarrier, *next));
  EXPECT_EQ(asked.size(), 2U);
}

TEST_F(LateRank, IsNamedOnceWhereRanksWaitForEachOtherInACircle) {
  ASSERT_FALSE(go_on());
  search.answered(1, 2);
  search.answered(2, 1);
  search.answered(2, 0);
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{1, 2}));
}

TEST_F(LateRank, IsNeverARankThatDoesNotExistOrWasNotAsked) {
  ASSERT_FALSE(go_on());
  search.answered(3, 2);   // nobody has asked rank 3
  search.answered(1, 77);  // there is no such rank
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{1}));
}

TEST_F(LateRank, IsForgottenWhenTheOwnerWaitsNoMore) {
  ASSERT_FALSE(go_on());
  EXPECT_FALSE(search.go_on(std::nullopt, now));
  search.answered(1, 2);
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{1}));
  EXPECT_FALSE(go_on());
  EXPECT_FALSE(go_on());
  EXPECT_TRUE(go_on());
}

TEST_F(LateRank, IsUnknownIfOnlyThisRanksDataHasNotBeenSent) {
  missing.reset();
  ASSERT_FALSE(go_on());
  ASSERT_FALSE(go_on());
  EXPECT_SAYS(go_on()->message(), "waits for its data to be sent");
}

}  // namespace
}  // namespace pharos::ml
