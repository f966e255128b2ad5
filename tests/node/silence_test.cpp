#include "head/silence.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using Change = Silence::Change;
using Lost = std::vector<Silence::Number>;

/// Runs a head's Silence, one tick per simulated second.
class SilenceTest : public testing::Test {
 protected:
  TimePoint now() const { return TimePoint{} + 1h + seconds_ * 1s; }
  /// Adds nodes 1, 2, … each on a machine of its own. All of them have just been heard.
  void add_nodes(int count) {
    for (int i = 1; i <= count; ++i) silence_.add(static_cast<Silence::Number>(i), "m" + std::to_string(i), now());
  }
  /// Lets a second pass: the nodes in `speak` are heard, and then comes a tick.
  Silence::Tick pass(const Lost& speak = {}) {
    ++seconds_;
    for (const auto node : speak) {
      if (const auto change = silence_.heard(node, now()); change != Change::kNone) last_change_ = change;
    }
    auto tick = silence_.tick();
    for (const auto node : tick.lost) silence_.remove(node);
    return tick;
  }
  /// Lets `ticks` seconds pass, and expects that no node is lost and that the suspicion does not change.
  void pass_quietly(int ticks, const Lost& speak = {}) {
    for (int i = 0; i < ticks; ++i) {
      const auto tick = pass(speak);
      EXPECT_EQ(tick.lost, Lost{}) << "second " << seconds_;
      EXPECT_EQ(tick.change, Change::kNone) << "second " << seconds_;
    }
  }

  Silence silence_;
  Change last_change_ = Change::kNone;
  int seconds_ = 0;
};

TEST_F(SilenceTest, OneOfSeveralIsLostAtItsTenthTickInSilence) {
  add_nodes(3);
  pass_quietly(9, {1, 3});
  EXPECT_EQ(silence_.ticks_of(2), 9U);
  EXPECT_EQ(pass({1, 3}).lost, Lost{2});
  pass_quietly(30, {1, 3});
}

TEST_F(SilenceTest, WhenAllFallSilentTogetherNoneIsLostForAMinute) {
  add_nodes(3);
  pass_quietly(9);
  EXPECT_EQ(pass().change, Change::kSuspicionBegins);
  EXPECT_TRUE(silence_.suspects_own_link());
  pass_quietly(60);
  const auto tick = pass();
  EXPECT_EQ(tick.change, Change::kSuspicionEnds);
  EXPECT_EQ(tick.lost, (Lost{1, 2, 3}));
}

TEST_F(SilenceTest, TheFirstWordEndsTheSuspicionAndGivesTheOthersTheirTimeAgain) {
  add_nodes(3);
  pass_quietly(9);
  EXPECT_EQ(pass().change, Change::kSuspicionBegins);
  pass_quietly(20);
  pass_quietly(1, {2});
  EXPECT_EQ(last_change_, Change::kSuspicionEnds);
  EXPECT_FALSE(silence_.suspects_own_link());
  pass_quietly(4, {2});
  pass_quietly(4, {1, 2});
  EXPECT_EQ(pass({1, 2}).lost, Lost{3});
}

TEST_F(SilenceTest, ALinkThatIsDownAgainIsSuspectedAgain) {
  add_nodes(2);
  pass_quietly(9);
  EXPECT_EQ(pass().change, Change::kSuspicionBegins);
  pass_quietly(5);
  pass_quietly(1, {1});
  pass_quietly(8);
  EXPECT_EQ(pass().change, Change::kSuspicionBegins);
}

TEST_F(SilenceTest, OnesThatFallSilentAtDifferentTimesAreLostOneByOne) {
  add_nodes(2);
  pass_quietly(2, {2});
  pass_quietly(7);
  EXPECT_EQ(pass().lost, Lost{1});
  EXPECT_EQ(pass().lost, Lost{2});
}

// Half a heartbeat is allowed for beats that are late.
TEST_F(SilenceTest, TogetherIsWithinAHeartbeatAndAHalf) {
  for (const auto& [apart, together] : {std::pair{1500ms, true}, std::pair{1501ms, false}}) {
    silence_ = Silence{};
    silence_.add(1, "m1", now());
    silence_.add(2, "m2", now());
    silence_.heard(2, now() + apart);
    for (int i = 0; i < 9; ++i) silence_.tick();
    EXPECT_EQ(silence_.tick().change, together ? Change::kSuspicionBegins : Change::kNone);
  }
}

TEST_F(SilenceTest, AnOnlyOtherMachineIsLostHoweverManyNodesItHas) {
  add_nodes(1);
  silence_.add(2, "m1", now());
  pass_quietly(9);
  EXPECT_EQ(pass().lost, (Lost{1, 2}));
}

TEST_F(SilenceTest, NodesOfTheHeadsMachineDoNotCountAndAreLostByThemselves) {
  add_nodes(2);
  silence_.add(3, "", now());
  silence_.add(4, "", now());
  pass_quietly(9, {3});
  const auto tick = pass({3});
  EXPECT_EQ(tick.change, Change::kSuspicionBegins);
  EXPECT_EQ(tick.lost, Lost{4});
  pass_quietly(9, {3});
  EXPECT_TRUE(silence_.suspects_own_link());
  pass_quietly(8);
  EXPECT_EQ(pass().lost, Lost{3});
  EXPECT_TRUE(silence_.suspects_own_link());
}

}  // namespace
}  // namespace pharos::node
