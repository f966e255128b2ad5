#include "node/to_head.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace pharos::node {
namespace {

class ToHeadTest : public testing::Test {
 protected:
  /// The actors of the KillActor messages that the head was told since the last call; 0 for any other message.
  std::vector<std::uint64_t> take_told() {
    std::vector<std::uint64_t> actors;
    for (const wire::Message& each : std::exchange(told_, {})) {
      const auto* const kill = std::get_if<wire::KillActor>(&each);
      actors.push_back(kill == nullptr ? 0 : kill->actor.value());
    }
    return actors;
  }
  void kill(std::uint64_t actor) { head_.tell(wire::KillActor{.actor = ActorId{actor}}); }

  std::vector<wire::Message> told_;
  ToHead head_{[this](wire::Message message) { told_.push_back(std::move(message)); }};
};

using Actors = std::vector<std::uint64_t>;

TEST_F(ToHeadTest, AnotherHeadIsToldWhatTheFirstHasNotConfirmed) {
  for (const std::uint64_t actor : {1, 2, 3}) kill(actor);
  head_.confirm(2);
  EXPECT_EQ(take_told(), (Actors{1, 2, 3}));
  head_.tell_again();
  EXPECT_EQ(take_told(), (Actors{3}));
}

TEST_F(ToHeadTest, AnotherHeadCountsFromItsOwnFirstMessage) {
  for (const std::uint64_t actor : {1, 2, 3}) kill(actor);
  head_.confirm(2);
  head_.tell_again();
  head_.confirm(1);
  take_told();
  head_.tell_again();
  EXPECT_EQ(take_told(), Actors{});
}

TEST_F(ToHeadTest, MessagesThatAReportRepeatsAreNotKept) {
  head_.tell(wire::NodeLoad{});
  EXPECT_EQ(take_told(), (Actors{0}));
  head_.tell_again();
  EXPECT_EQ(take_told(), Actors{});
}

TEST_F(ToHeadTest, NoNumberIsGivenTwice) {
  const std::uint64_t first = head_.next_number();
  EXPECT_GT(head_.next_number(), first);
}

}  // namespace
}  // namespace pharos::node
