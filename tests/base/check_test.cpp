#include <gtest/gtest.h>

#include <string>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/check.hpp>
#include <pharos/base/error.hpp>
#include <pharos/base/id.hpp>

namespace pharos {
namespace {

TEST(CheckDeathTest, PrintsTheConditionTheValuesAndThePlaceAndAborts) {
  const int workers = 3;
  const std::string label = "trainer";
  EXPECT_EXIT(PHAROS_CHECK(workers == 4, workers, label), testing::KilledBySignal(SIGABRT),
              "check failed: workers == 4\n  with workers, label = 3, trainer\n  at .*check_test.cpp:[0-9]+\n");
}

TEST(CheckDeathTest, NeedsNoValues) {
  EXPECT_EXIT(PHAROS_CHECK(1 == 2), testing::KilledBySignal(SIGABRT), "check failed: 1 == 2\n  at ");
}

TEST(Check, EvaluatesItsConditionOnceAndItsValuesOnlyWhenItFails) {
  int conditions = 0;
  int values = 0;
  PHAROS_CHECK(++conditions == 1, ++values);
  EXPECT_EQ(conditions, 1);
  EXPECT_EQ(values, 0);
}

TEST(Check, IsOneStatement) {
  if (true)
    PHAROS_CHECK(true);
  else
    FAIL();
}

enum class Plain { kThree = 3 };
struct Unprintable {};

TEST(Check, PrintsWhatStreamsWhatHasATextAndEnums) {
  EXPECT_EQ(detail::print(7), "7");
  EXPECT_EQ(detail::print("text"), "text");
  EXPECT_EQ(detail::print(NodeId{255}), "00000000000000ff");
  EXPECT_EQ(detail::print(ByteCount{2048}), "2 KiB");
  EXPECT_EQ(detail::print(ErrorCode::kCorrupt), "corrupt");
  EXPECT_EQ(detail::print(Error{ErrorCode::kCorrupt, "no sense"}), "no sense");
  EXPECT_EQ(detail::print(Plain::kThree), "3");
  EXPECT_EQ(detail::print(Unprintable{}), "?");
  EXPECT_EQ(detail::print_all(1, 2, "three"), "1, 2, three");
}

}  // namespace
}  // namespace pharos
