#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <pharos/base/result.hpp>

namespace pharos {
namespace {

Result<int> half_of(int n) {
  if (n % 2 != 0) return Error{ErrorCode::kInvalidArgument, std::to_string(n) + " is odd"};
  return n / 2;
}

Result<int> quarter_of(int n) {
  PHAROS_TRY(const int half, half_of(n));
  PHAROS_TRY(const int quarter, half_of(half));
  return quarter;
}

Result<void> must_be_even(int n) {
  PHAROS_TRY_VOID(half_of(n));
  return {};
}

TEST(Result, HoldsAValueOrAnError) {
  const auto good = half_of(4);
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(static_cast<bool>(good));
  EXPECT_EQ(*good, 2);
  const auto bad = half_of(3);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().message(), "3 is odd");
}

TEST(Result, TryDeclaresTheValueOrReturnsTheError) {
  EXPECT_EQ(*quarter_of(8), 2);
  EXPECT_EQ(quarter_of(7).error().message(), "7 is odd");
  EXPECT_EQ(quarter_of(6).error().message(), "3 is odd");
}

TEST(Result, TryVoidPassesTheErrorOn) {
  EXPECT_TRUE(must_be_even(2).ok());
  EXPECT_EQ(must_be_even(5).error().code(), ErrorCode::kInvalidArgument);
}

TEST(Result, CarriesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  EXPECT_EQ(**result, 3);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 3);
}

TEST(Result, ConvertsWhatItsValueIsMadeFrom) {
  const Result<std::string> text = "abc";
  EXPECT_EQ(text->size(), 3u);
}

TEST(Result, OfVoidHoldsNothingOrAnError) {
  const Result<void> good;
  EXPECT_TRUE(good.ok());
  const Result<void> bad = Error{ErrorCode::kCorrupt, "bad"};
  EXPECT_EQ(bad.error().code(), ErrorCode::kCorrupt);
}

TEST(ResultDeathTest, TheWrongSideEndsTheProcessAndPrintsTheError) {
  EXPECT_DEATH(half_of(3).value(), "3 is odd");
  EXPECT_DEATH(static_cast<void>(half_of(2).error()), "check failed");
  EXPECT_DEATH(must_be_even(3).value(), "3 is odd");
}

}  // namespace
}  // namespace pharos
