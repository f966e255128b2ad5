#include <gtest/gtest.h>

#include <string>

#include <pharos/scheduler/environment.hpp>

namespace pharos::scheduler {
namespace {

TEST(Environment, HasTheVariablesInTheOrderOfTheirNames) {
  EXPECT_EQ(*environment_of({{"B", "2"}, {"A", "x=1"}, {"C", ""}}), (Environment{"A=x=1", "B=2", "C="}));
  EXPECT_EQ(*environment_of({}), Environment{});
}

TEST(Environment, ThatMakesNoSenseIsRefused) {
  const auto why = [](const Environment& environment) {
    const auto checked = check_environment(environment);
    return checked ? "" : checked.error().message();
  };
  EXPECT_EQ(why({"A=1", "B=2"}), "");
  EXPECT_NE(why({"A"}).find("no name"), std::string::npos);
  EXPECT_NE(why({"=1"}).find("no name"), std::string::npos);
  EXPECT_NE(why({std::string{"A=\0", 3}}).find("zero byte"), std::string::npos);
  EXPECT_NE(why({"B=1", "A=2"}).find("order"), std::string::npos);
  EXPECT_NE(why({"A=1", "A=2"}).find("order"), std::string::npos);
  EXPECT_NE(why({"A=" + std::string(kEnvironmentBytesMax, 'x')}).find("65539 bytes"), std::string::npos);
  const auto refused = environment_of({{"A=B", "1"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
}

TEST(Environment, ReplacesVariablesOfTheSameName) {
  EXPECT_EQ(joined({"PATH=/bin", "AB=1", "A=2"}, {"A=3", "C=4"}), (Environment{"PATH=/bin", "AB=1", "A=3", "C=4"}));
}

}  // namespace
}  // namespace pharos::scheduler
