#include <gtest/gtest.h>

#include <unordered_set>
#include <vector>

#include <pharos/scheduler/holders.hpp>
#include <pharos/scheduler/waiting_requests.hpp>

namespace pharos::scheduler {
namespace {

constexpr ActorId kActor{5};
constexpr ActorId kOther{6};
constexpr CallerId kCaller{7};
constexpr CallerId kSecond{8};

TEST(Holders, AnActorIsHeldUntilItsLastHolderReleasesIt) {
  Holders holders;
  holders.take(kActor, kCaller);
  EXPECT_FALSE(holders.add(kActor, kSecond, 2));
  EXPECT_TRUE(holders.add(kActor, kCaller, -1));
  EXPECT_EQ(holders.of(kActor), std::vector{kSecond});
  EXPECT_FALSE(holders.add(kActor, kSecond, -1));
  EXPECT_TRUE(holders.is_held(kActor));
  EXPECT_TRUE(holders.add(kActor, kSecond, -1));
  EXPECT_FALSE(holders.is_held(kActor));
}

TEST(Holders, AReleaseMayComeBeforeItsHold) {
  Holders holders;
  EXPECT_FALSE(holders.add(kActor, kCaller, -1));
  EXPECT_TRUE(holders.is_held(kActor));
  EXPECT_TRUE(holders.add(kActor, kCaller, 1));
  EXPECT_FALSE(holders.is_held(kActor));
}

TEST(Holders, WhoTakesAnActorHasItThoughAnEarlyReleaseMakesTheNumberZero) {
  Holders holders;
  holders.add(kActor, kCaller, -1);
  holders.take(kActor, kCaller);
  EXPECT_TRUE(holders.is_held(kActor));
}

TEST(Holders, ANumberThatIsSetReplacesWhatWasKnown) {
  Holders holders;
  holders.add(kActor, kCaller, 5);
  EXPECT_FALSE(holders.set(kActor, kCaller, 1));
  EXPECT_TRUE(holders.add(kActor, kCaller, -1));
  EXPECT_FALSE(holders.set(kActor, kCaller, 0));
}

TEST(Holders, ACallerThatHasEndedHoldsNothingAndIsIgnored) {
  Holders holders;
  holders.take(kActor, kCaller);
  holders.take(kOther, kCaller);
  holders.take(kOther, kSecond);
  EXPECT_EQ(holders.end_caller(kCaller), (std::unordered_set{kActor, kOther}));
  EXPECT_FALSE(holders.is_held(kActor));
  EXPECT_TRUE(holders.is_held(kOther));
  holders.take(kActor, kCaller);
  holders.add(kActor, kCaller, 1);
  holders.set(kActor, kCaller, 1);
  EXPECT_FALSE(holders.is_held(kActor));
  EXPECT_TRUE(holders.end_caller(kCaller).empty());
}

TEST(Holders, AnActorThatIsReleasedByAllIsHeldByNobody) {
  Holders holders;
  holders.take(kActor, kCaller);
  holders.take(kActor, kSecond);
  holders.release_all(kActor);
  EXPECT_TRUE(holders.of(kActor).empty());
  EXPECT_TRUE(holders.end_caller(kCaller).empty());
}

TEST(Holders, PromisesStayUntilTheyEnd) {
  Holders holders;
  holders.promise(kActor, kCaller);
  holders.take(kOther, kSecond);
  EXPECT_EQ(holders.callers(), (std::vector{kCaller, kSecond}));
  holders.end_caller(kCaller);
  EXPECT_EQ(holders.promised_by(kCaller), std::unordered_set{kActor});
  holders.end_promise(kActor, kCaller);
  EXPECT_TRUE(holders.promised_by(kCaller).empty());
}

TEST(WaitingRequests, TheRequestsOfAnActorAreTakenOldestFirst) {
  WaitingRequests requests;
  for (const std::uint64_t each : {3, 1, 2}) requests.add(ActorRequestId{each}, kActor);
  requests.add(ActorRequestId{4}, kOther);
  EXPECT_EQ(requests.waiting_for(kActor), 3u);
  requests.drop(ActorRequestId{1});
  requests.drop(ActorRequestId{1});
  EXPECT_EQ(requests.take(kActor), (std::vector{ActorRequestId{3}, ActorRequestId{2}}));
  EXPECT_TRUE(requests.take(kActor).empty());
  EXPECT_EQ(requests.size(), 1u);
}

}  // namespace
}  // namespace pharos::scheduler
