// Groups of actors on several nodes.

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "several_nodes.hpp"

namespace pharos::cluster::actor_groups {
namespace {

class ActorGroupsTest : public SeveralNodes {};

TEST_F(ActorGroupsTest, MembersAreApartOrTogetherOrWhereEachAsksToBe) {
  start_head();
  start_node("cpu=2,b=1", {{"PHAROS_LABELS", "zone=b"}});
  start_node("cpu=2,c=1,gpu=2");
  const auto program = start_program(GROUPS_APART, {});
  const auto after = [&](const std::string& words) {
    const std::string line = program->next_line();
    EXPECT_TRUE(line.starts_with(words)) << line;
    return line.substr(words.size());
  };
  const std::string b = after("b is ");
  const std::string c = after("c is ");
  std::set<std::string> apart;
  for (int i = 0; i < 3; ++i) apart.insert(after("apart on "));
  EXPECT_EQ(apart.size(), 3U);
  EXPECT_TRUE(apart.contains(b + " with none"));
  EXPECT_EQ(after("together on "), after("together on "));
  EXPECT_EQ(after("as asked on "), b + " with none");
  EXPECT_EQ(after("as asked on "), c + " with 0");
  EXPECT_EQ(after("as asked on "), b + " with none");
  EXPECT_EQ(program->wait().status, 0);
}

}  // namespace
}  // namespace pharos::cluster::actor_groups
