#include "node/holds.hpp"

#include <gtest/gtest.h>

namespace pharos::node {
namespace {

constexpr CallerId kCaller{1};
constexpr ActorId kActor{5};

wire::PromiseActor promise() {
  return {.actor = kActor};
}

TEST(Holds, ACreatorHoldsTheActorOnceHoweverItWasAnnounced) {
  Holds holds;
  holds.note_asked(kCaller, promise());
  holds.note_asked(kCaller, wire::StartActor{.actor = kActor});
  EXPECT_EQ(holds.list(), (std::vector<wire::Report::Hold>{{kCaller, kActor, 1}}));
}

TEST(Holds, ACreatorThatGetsAnotherActorOfThatNameHoldsThatOneInstead) {
  Holds holds;
  holds.note_asked(kCaller, promise());
  holds.note_answered(kCaller, promise(), ActorId{6});
  EXPECT_EQ(holds.list(), (std::vector<wire::Report::Hold>{{kCaller, ActorId{6}, 1}}));
}

TEST(Holds, ACreatorWhosePromiseIsRefusedHoldsNothing) {
  Holds holds;
  holds.note_asked(kCaller, promise());
  holds.note_answered(kCaller, promise(), {});
  EXPECT_TRUE(holds.list().empty());
}

TEST(Holds, WhoFindsAnActorHoldsItUntilItLetsGo) {
  Holds holds;
  holds.note_answered(kCaller, wire::FindActor{}, kActor);
  EXPECT_TRUE(holds.contains(kCaller, kActor));
  holds.note_asked(kCaller, wire::HoldActor{.actor = kActor, .count = -1});
  EXPECT_FALSE(holds.contains(kCaller, kActor));
}

TEST(Holds, AReleaseMayComeBeforeTheHoldThatItUndoes) {
  Holds holds;
  holds.note_asked(kCaller, wire::HoldActor{.actor = kActor, .count = -1});
  EXPECT_EQ(holds.list(), (std::vector<wire::Report::Hold>{{kCaller, kActor, -1}}));
  holds.note_asked(kCaller, wire::HoldActor{.actor = kActor, .count = 1});
  EXPECT_TRUE(holds.list().empty());
}

TEST(Holds, ACallerThatHasEndedHoldsNothing) {
  Holds holds;
  holds.note_asked(kCaller, promise());
  holds.note_asked(CallerId{2}, wire::HoldActor{.actor = kActor, .count = 1});
  holds.forget(kCaller);
  EXPECT_EQ(holds.list(), (std::vector<wire::Report::Hold>{{CallerId{2}, kActor, 1}}));
}

}  // namespace
}  // namespace pharos::node
