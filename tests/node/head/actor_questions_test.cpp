#include <chrono>

#include "head/actors/early_questions.hpp"
#include "head_actor_parts.hpp"

namespace pharos::node::head {
namespace {

using namespace std::chrono_literals;

// ---- Making actors, and connecting with them

class HeadConnections : public HeadActorParts {};

TEST_F(HeadConnections, TheCallerHearsWhereItsActorIsAlive) {
  start_alive(making(50));
  const auto alive = last_told<wire::ActorAlive>(1);
  EXPECT_EQ(alive.number, 50u);
  EXPECT_EQ(alive.node, NodeId{2});
  EXPECT_EQ(alive.address, "10.0.0.2");
  EXPECT_EQ(connections_.size(), 0u);
}

TEST_F(HeadConnections, WhoHasLostTheConnectionIsAnsweredWhenTheNextIncarnationIsAlive) {
  wire::StartActor start = making(50);
  start.max_restarts = 1;
  start_alive(std::move(start));
  told(1);
  connections_.connect(NodeId{1}, {ActorId{50}, 1, asker(9)});
  EXPECT_EQ(told(1), Names{});
  places_.note_ended({ActorId{50}, 1, "it crashed"});
  apply(actors_.incarnation_started(ActorId{50}, 2));
  const auto alive = last_told<wire::ActorAlive>(1);
  EXPECT_EQ(alive.incarnation, 2u);
  EXPECT_EQ(alive.ended, "it crashed");
}

TEST_F(HeadConnections, WhoHasLostTheConnectionToAnActorThatLivesMayTryAgainAfterAMoment) {
  start_alive(making(50));
  told(1);
  connections_.connect(NodeId{1}, {ActorId{50}, 1, asker(9)});
  executor_.advance(499ms);
  EXPECT_EQ(told(1), Names{});
  executor_.advance(1ms);
  EXPECT_EQ(last_told<wire::ActorAlive>(1).number, 9u);
}

TEST_F(HeadConnections, WhileTheActorsNodeIsSilentTheCallerWaits) {
  start_alive(making(50));
  told(1);
  nodes_.begin_silence(NodeId{2});
  connections_.connect(NodeId{1}, {ActorId{50}, 1, asker(9)});
  executor_.advance(1min);
  EXPECT_EQ(told(1), Names{});
  nodes_.end_silence(NodeId{2});
  connections_.connect_again_at(NodeId{2});
  EXPECT_EQ(told(1), Names{"ActorAlive"});
}

TEST_F(HeadConnections, NobodyIsAnsweredAfterItsEnd) {
  maker_.start(NodeId{1}, making(50));
  connections_.end_caller(CallerId{70});
  apply(actors_.incarnation_started(ActorId{50}, 1));
  EXPECT_EQ(connections_.size(), 0u);
  EXPECT_EQ(told(1), Names{});
}

TEST_F(HeadConnections, AnActorOfAGroupThatIsGoneIsRefusedAndDuringARecoveryPutOff) {
  wire::StartActor start = making(50, "cpu=1", 0);
  start.demand.group = GroupId{5};
  EXPECT_FALSE(maker_.start(NodeId{1}, start));
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kNotFound);
  recovery_.begin();
  EXPECT_FALSE(maker_.start(NodeId{1}, start));
  EXPECT_EQ(told(1), Names{});
  EXPECT_EQ(recovery_.take_put_off().size(), 1u);
}

TEST_F(HeadConnections, ANameWithControlCharactersIsRefused) {
  wire::PromiseActor promise{.actor = ActorId{50}, .name = "a\nb", .asker = asker(1)};
  EXPECT_FALSE(maker_.promise(NodeId{1}, promise, jobs_));
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kInvalidArgument);
}

TEST_F(HeadConnections, OnlyItsProgramBreaksAPromise) {
  const wire::PromiseActor promise{.actor = ActorId{50}, .asker = asker(1)};
  ASSERT_TRUE(maker_.promise(NodeId{1}, promise, jobs_));
  EXPECT_EQ(told(1), Names{"ActorFound"});
  maker_.break_promise({ActorId{50}, Error{ErrorCode::kActorDied, "no arguments"}, asker(2, 71, 8)});
  EXPECT_TRUE(actors_.lives(ActorId{50}));
  maker_.break_promise({ActorId{50}, Error{ErrorCode::kActorDied, "no arguments"}, asker(2)});
  EXPECT_FALSE(actors_.lives(ActorId{50}));
}

TEST_F(HeadConnections, AnActorThatExistsIsGivenOnlyToProgramsOfItsBuild) {
  start_alive_and_detached(50, "n");
  told(1);
  add_job_of_another_build(JobId{8});
  jobs_.add(NodeId{2}, wire::AddJob{JobId{9}, {}, {}, {}});
  const auto promise = [](std::uint64_t actor, std::uint64_t job) {
    return wire::PromiseActor{
        .actor = ActorId{actor}, .name = "n", .type = "5Actor", .get_if_exists = true, .asker = asker(actor, 71, job)};
  };
  EXPECT_TRUE(maker_.promise(NodeId{1}, promise(51, 9), jobs_));
  EXPECT_EQ(last_told<wire::ActorFound>(1).actor, ActorId{50});
  EXPECT_FALSE(maker_.promise(NodeId{1}, promise(52, 8), jobs_));
  const auto refused = last_told<wire::Refused>(1);
  EXPECT_EQ(refused.number, 52u);
  EXPECT_EQ(refused.why.code(), ErrorCode::kFailedPrecondition);
  EXPECT_NE(refused.why.message().find("belongs to another build"), std::string::npos) << refused.why.message();
}

TEST_F(HeadConnections, WhoIsRefusedAnActorOfAnotherBuildDoesNotHoldIt) {
  wire::StartActor start = making(50);
  start.name = "n";
  start_alive(std::move(start));
  add_job_of_another_build(JobId{8});
  const wire::PromiseActor promise{
      .actor = ActorId{51}, .name = "n", .type = "5Actor", .get_if_exists = true, .asker = asker(1, 71, 8)};
  EXPECT_FALSE(maker_.promise(NodeId{1}, promise, jobs_));
  EXPECT_EQ(actors_.holders_of(ActorId{50}), std::vector{CallerId{70}});
}

// ---- Handles

class HeadHandles : public HeadActorParts {};

TEST_F(HeadHandles, AReleaseCountsAfterAMomentSoThatAHoldMayComeFirst) {
  start_alive(making(50));
  handles_.hold_for(NodeId{1}, {ActorId{50}, -1, asker(0)});
  executor_.advance(19ms);
  EXPECT_TRUE(actors_.lives(ActorId{50}));
  handles_.hold_for(NodeId{1}, {ActorId{50}, 1, asker(0, 71)});
  executor_.advance(1ms);
  EXPECT_TRUE(actors_.lives(ActorId{50}));
  handles_.hold_for(NodeId{1}, {ActorId{50}, -1, asker(0, 71)});
  executor_.advance(20ms);
  EXPECT_FALSE(actors_.lives(ActorId{50}));
}

TEST_F(HeadHandles, AHoldIsConfirmedAndAReleaseIsNot) {
  start_alive(making(50));
  told(1);
  handles_.hold_for(NodeId{1}, {ActorId{50}, 1, asker(6, 71)});
  EXPECT_EQ(last_told<wire::ActorHeld>(1).number, 6u);
  EXPECT_EQ(actors_.holders_of(ActorId{50}).size(), 2u);
  told(1);
  handles_.hold_for(NodeId{1}, {ActorId{50}, 0, asker(7, 71)});
  EXPECT_EQ(told(1), Names{"ActorHeld"});
  handles_.hold_for(NodeId{1}, {ActorId{50}, -1, asker(8, 71)});
  executor_.advance(20ms);
  EXPECT_EQ(told(1), Names{});
  EXPECT_EQ(actors_.holders_of(ActorId{50}).size(), 1u);
}

TEST_F(HeadHandles, AProgramEndsItsOwnActorsAndDetachedOnes) {
  start_alive(making(50));
  wire::StartActor detached = making(51);
  detached.detached = true;
  start_alive(std::move(detached));
  handles_.kill({ActorId{50}, asker(0, 71, 8)});
  EXPECT_TRUE(actors_.lives(ActorId{50}));
  handles_.kill({ActorId{50}, asker(0)});
  EXPECT_FALSE(actors_.lives(ActorId{50}));
  handles_.kill({ActorId{51}, asker(0, 71, 8)});
  EXPECT_FALSE(actors_.lives(ActorId{51}));
}

TEST_F(HeadHandles, AnActorOfAnotherBuildIsFoundAndRefused) {
  start_alive_and_detached(50, "n");
  told(1);
  handles_.find_for(NodeId{1}, {"", "n", "5Actor", asker(3)});
  EXPECT_EQ(last_told<wire::ActorFound>(1).actor, ActorId{50});
  add_job_of_another_build(JobId{8});
  handles_.find_for(NodeId{1}, {"", "n", "5Actor", asker(4, 71, 8)});
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kFailedPrecondition);
}

TEST_F(HeadHandles, AQuestionWithoutATypeFindsAnActorOfAnyTypeAndBuild) {
  wire::StartActor start = making(50);
  start.name = "n";
  start_alive(std::move(start));
  add_job_of_another_build(JobId{8});
  handles_.find_for(NodeId{1}, {"", "n", "", asker(4, 71, 8)});
  EXPECT_EQ(last_told<wire::ActorFound>(1).actor, ActorId{50});
  EXPECT_EQ(actors_.holders_of(ActorId{50}).size(), 2u);
}

// ---- Questions that come too early

class HeadEarlyQuestions : public HeadParts {
 protected:
  HeadEarlyQuestions() {
    scheduler::ActorSpec spec;
    spec.job = JobId{7};
    EXPECT_TRUE(actors_.promise(ActorId{50}, spec, false, CallerId{70}));
  }
  void ask(std::uint64_t actor) {
    early_.ask(ActorId{actor}, [this] { ++answered_; });
  }
  scheduler::ActorTable actors_;
  EarlyQuestions early_{events_, actors_, recovery_};
  int answered_ = 0;
};

TEST_F(HeadEarlyQuestions, AQuestionAboutAKnownActorIsAnsweredAtOnce) {
  ask(50);
  EXPECT_EQ(answered_, 1);
  EXPECT_EQ(early_.size(), 0u);
}

TEST_F(HeadEarlyQuestions, QuestionsAboutAnUnknownActorWaitForItsMakerOrASecond) {
  ask(51);
  ask(51);
  ask(52);
  EXPECT_EQ(answered_, 0);
  early_.answer(ActorId{51});
  EXPECT_EQ(answered_, 2);
  executor_.advance(1s);
  EXPECT_EQ(answered_, 3);
}

TEST_F(HeadEarlyQuestions, DuringARecoveryTheyWaitForTheEndOfIt) {
  recovery_.begin();
  ask(51);
  executor_.advance(30s);
  EXPECT_EQ(answered_, 0);
  EXPECT_TRUE(recovery_.end_if_all_settled());
  executor_.advance(1s);
  EXPECT_EQ(answered_, 1);
}

}  // namespace
}  // namespace pharos::node::head
