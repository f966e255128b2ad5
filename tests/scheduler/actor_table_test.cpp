#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "actor_table_fixture.hpp"

namespace pharos::scheduler {
namespace {

using namespace std::chrono_literals;

const std::string kUnheld = ", actor died: actor \"a\" ended: nobody holds it any more";
const std::string kJobOver = ", actor died: actor \"a\" ended: its job is over";

TEST_F(ActorTableTest, OfOneThatWasKilledForMemoryTheErrorIsOfThatKind) {
  create_alive(5, spec_with(1));
  EXPECT_TRUE(table_.look_at(ActorId{5})->may_restart());
  table_.incarnation_ended(ActorId{5}, 1, "it took all", now_, true);
  started(5, 2);
  EXPECT_FALSE(table_.look_at(ActorId{5})->may_restart());
  table_.incarnation_ended(ActorId{5}, 2, "it took all", now_, true);
  const auto refused = table_.connect(ActorRequestId{9}, ActorId{5});
  const Error why = std::get<ActorRefused>(refused.at(0)).why;
  EXPECT_EQ(why.code(), ErrorCode::kExhausted);
  EXPECT_NE(why.message().find("ended: it took all; it was restarted 1 time"), std::string::npos) << why.to_string();
  EXPECT_NE(why.remedy().find(".memory"), std::string::npos) << why.to_string();
  EXPECT_FALSE(table_.look_at(ActorId{5})->may_restart());
}

TEST_F(ActorTableTest, AnActorIsStartedAndItsCreatorAnsweredWhenItIsConstructed) {
  EXPECT_EQ(create(1, 5, spec_of(7)), (Texts{"start 5.1"}));
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_EQ(table_.waiting(), 1u);
  EXPECT_EQ(table_.look_at(ActorId{5})->spec.type, "7Counter");
  EXPECT_EQ(table_.look_at(ActorId{6}), nullptr);
  EXPECT_EQ(started(5, 1), (Texts{"ready 1, 5.1"}));
  EXPECT_EQ(started(5, 1), Texts{});
  EXPECT_EQ(table_.waiting(), 0u);
}

TEST_F(ActorTableTest, AnIdThatExistsIsRefusedAlsoWhenItsActorHasDied) {
  create_alive(5, spec_of(7));
  EXPECT_EQ(create(2, 5, spec_of(7)), (Texts{"refuse 2, already exists: there is an actor 0000000000000005 already"}));
  ended(5, 1);
  EXPECT_EQ(create(3, 5, spec_of(7)), (Texts{"refuse 3, already exists: there is an actor 0000000000000005 already"}));
}

TEST_F(ActorTableTest, OneThatIsStoppedEndsAfterItsDestructorAndFreesItsName) {
  create_alive(5, named("x"));
  const auto stop = [&] { return texts(table_.stop(ActorId{5}, "was told to stop", 3s)); };
  EXPECT_EQ(stop(), (Texts{"end 5.1"}));
  EXPECT_EQ(stop(), Texts{});
  EXPECT_FALSE(table_.lives(ActorId{5}));
  EXPECT_EQ(find("x").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(connect(2, 5), (Texts{"refuse 2, actor died: actor \"a\" was told to stop"}));
  EXPECT_EQ(ended(5, 1), Texts{}) << "there is no restart";
}

TEST_F(ActorTableTest, OneThatMovesStartsAgainAndThatIsNoRestart) {
  create_alive(5, spec_with(1));
  EXPECT_EQ(texts(table_.move(ActorId{5}, 3s)), (Texts{"end 5.1"}));
  EXPECT_EQ(texts(table_.move(ActorId{5}, 3s)), Texts{}) << "it moves already";
  EXPECT_EQ(ended(5, 1), (Texts{"start 5.2"}));
  EXPECT_EQ(texts(table_.move(ActorId{5}, 3s)), Texts{}) << "it is not there yet";
  started(5, 2);
  EXPECT_EQ(ended(5, 2), (Texts{"start 5.3"})) << "it has its restart still";
  create_alive(6, spec_with(0));
  EXPECT_EQ(texts(table_.move(ActorId{6}, 3s)), Texts{}) << "it cannot be started again";
}

TEST_F(ActorTableTest, AJobHasDetachedActorsAsLongAsOneLives) {
  create_alive(5, spec_with(0));
  EXPECT_FALSE(table_.has_detached(JobId{7}));
  create_alive(6, detached());
  EXPECT_TRUE(table_.has_detached(JobId{7}));
  EXPECT_FALSE(table_.has_detached(JobId{8}));
  kill(6);
  EXPECT_FALSE(table_.has_detached(JobId{7}));
}

TEST_F(ActorTableTest, ATakenNameIsRefused) {
  create(1, 5, named("x"));
  EXPECT_EQ(create(2, 6, named("x")),
            (Texts{"refuse 2, already exists: there is an actor named \"x\" in namespace \"lab\" already"}));
  EXPECT_EQ(table_.look_at(ActorId{6}), nullptr);
  EXPECT_EQ(table_.size(), 1u);

  ActorSpec elsewhere = named("x");
  elsewhere.name_space = "other";
  EXPECT_EQ(create(3, 7, elsewhere), (Texts{"start 7.1"}));
  EXPECT_EQ(create(4, 8, spec_of(7)), (Texts{"start 8.1"}));
  EXPECT_EQ(create(5, 9, spec_of(7)), (Texts{"start 9.1"})) << "no name is not a name";
}

TEST_F(ActorTableTest, WhatIsAskedOfAPromisedActorWaitsForItsStart) {
  EXPECT_EQ(promise(5, named("x"), false), "5");
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_EQ(connect(1, 5), Texts{});
  EXPECT_EQ(create(2, 6, named("x")),
            (Texts{"refuse 2, already exists: there is an actor named \"x\" in namespace \"lab\" already"}));
  EXPECT_EQ(started(5, 1), Texts{}) << "it has not been started";
  EXPECT_EQ(create(3, 5, named("x")), (Texts{"start 5.1"}));
  EXPECT_EQ(started(5, 1), (Texts{"ready 1, 5.1", "ready 3, 5.1"}));
  EXPECT_EQ(hold(5, 7, -1), (Texts{"end 5.1"})) << "it is held once";
}

TEST_F(ActorTableTest, ABrokenPromiseRefusesWhoWaitsAndFreesTheName) {
  promise(5, named("x"), false);
  connect(1, 5);
  EXPECT_EQ(break_promise(5), (Texts{"refuse 1, actor died: no arguments"}));
  EXPECT_EQ(connect(2, 5), (Texts{"refuse 2, actor died: no arguments"}));
  EXPECT_EQ(create(3, 5, named("x")), (Texts{"refuse 3, actor died: no arguments"}));
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(promise(6, named("x"), false), "6");
  create(4, 6, named("x"));
  EXPECT_EQ(break_promise(6), Texts{}) << "it has been kept";
}

TEST_F(ActorTableTest, PromisesOfACallerThatEndsAreBroken) {
  promise(5, spec_of(7), false, 8);
  hold(5, 9, 1);
  connect(1, 5);
  EXPECT_EQ(caller_ended(8), (Texts{"refuse 1, actor died: actor \"a\" was not created: its creator ended before the "
                                    "arguments of its constructor were ready"}));
  EXPECT_EQ(caller_ended(9), Texts{});
}

TEST_F(ActorTableTest, APromisedActorThatNobodyHoldsIsEndedWhenItHasStarted) {
  promise(5, spec_of(7), false);
  EXPECT_EQ(hold(5, 7, -1), Texts{});
  EXPECT_EQ(create(1, 5, spec_of(7)), (Texts{"start 5.1", "refuse 1" + kUnheld}));
  EXPECT_EQ(started(5, 1), (Texts{"end 5.1"}));
}

TEST_F(ActorTableTest, APromisedActorIsKilledBeforeItStarts) {
  promise(5, spec_of(7), false);
  EXPECT_EQ(kill(5), Texts{});
  EXPECT_EQ(create(1, 5, spec_of(7)), (Texts{"refuse 1, actor died: actor \"a\" was killed"}));
}

TEST_F(ActorTableTest, GetIfExistsGivesTheOneThatIsThereAndHoldsIt) {
  EXPECT_EQ(promise(5, named("x"), true), "5");
  EXPECT_EQ(promise(6, named("x"), true, 8), "5");
  create(1, 5, named("x"));
  EXPECT_EQ(started(5, 1), (Texts{"ready 1, 5.1"}));
  EXPECT_EQ(promise(6, named("x"), true, 9), "5");
  EXPECT_EQ(table_.look_at(ActorId{6}), nullptr);
  EXPECT_EQ(hold(5, 7, -1), Texts{});
  EXPECT_EQ(hold(5, 9, -1), Texts{});
  EXPECT_EQ(hold(5, 8, -1), (Texts{"end 5.1"}));
}

TEST_F(ActorTableTest, GetIfExistsWithAnotherTypeIsRefusedAndHoldsNothing) {
  create_alive(5, named("x"));
  ActorSpec other = named("x");
  other.type = "5Timer";
  EXPECT_EQ(promise(6, other, true, 8),
            "invalid argument: the actor named \"x\" in namespace \"lab\" has the type \"Counter\", not \"Timer\"");
  EXPECT_EQ(hold(5, 7, -1), (Texts{"end 5.1"}));
}

TEST_F(ActorTableTest, GetIfExistsWithoutANameIsAnotherOne) {
  create(1, 5, spec_of(7));
  EXPECT_EQ(promise(6, spec_of(7), true), "6");
}

TEST_F(ActorTableTest, TheNameIsFreeWhenItsActorIsDeadForGoodOrAskedToEnd) {
  create_alive(5, named("crashed"));
  ended(5, 1);
  EXPECT_EQ(create(10, 15, named("crashed")), (Texts{"start 15.1"}));
  create_alive(6, named("unheld"));
  hold(6, 7, -1);
  EXPECT_EQ(create(11, 16, named("unheld")), (Texts{"start 16.1"}));
  create(1, 7, named("killed"));
  kill(7);
  EXPECT_EQ(create(12, 17, named("killed")), (Texts{"start 17.1"}));
  create(2, 8, named("failed"));
  constructor_failed(8, 1);
  EXPECT_EQ(create(13, 18, named("failed")), (Texts{"start 18.1"}));
  create(3, 9, named("unheld while starting"));
  hold(9, 7, -1);
  EXPECT_EQ(create(14, 19, named("unheld while starting")), (Texts{"start 19.1"}));

  EXPECT_EQ(ended(6, 1), Texts{});
  EXPECT_EQ(*find("unheld"), ActorId{16}) << "the name is the new one's, whatever becomes of the old one";
}

TEST_F(ActorTableTest, ARestartingActorKeepsItsName) {
  ActorSpec spec = named("x");
  spec.max_restarts = -1;
  bring_to_restarting(spec);
  EXPECT_EQ(*find("x"), ActorId{5});
  EXPECT_EQ(promise(6, spec, true), "5");
  EXPECT_EQ(connect(2, 5), Texts{});
  now_ += 100ms;
  tick();
  EXPECT_EQ(started(5, 3), (Texts{"ready 2, 5.3"}));
}

TEST_F(ActorTableTest, ConnectIsAnsweredWhenThePresentIncarnationHasStarted) {
  create(1, 5, spec_with(1));
  EXPECT_EQ(connect(2, 5), Texts{});
  EXPECT_EQ(started(5, 1), (Texts{"ready 1, 5.1", "ready 2, 5.1"}));
  EXPECT_EQ(connect(3, 5), (Texts{"ready 3, 5.1"}));
  ended(5, 1);
  EXPECT_EQ(connect(4, 5), Texts{});
  EXPECT_EQ(started(5, 2), (Texts{"ready 4, 5.2"}));
}

TEST_F(ActorTableTest, ConnectIsAnsweredWithTheSameIncarnationWhenTheConnectionAloneBroke) {
  create_alive(5, spec_with(1));
  EXPECT_EQ(connect(2, 5), (Texts{"ready 2, 5.1"}));
}

TEST_F(ActorTableTest, ConnectHoldsNothing) {
  create_alive(5, spec_of(7));
  connect(2, 5);
  EXPECT_EQ(hold(5, 7, -1), (Texts{"end 5.1"}));
}

TEST_F(ActorTableTest, ConnectToOneThatHasDiedSaysWhyAndToOneThatNeverWasThatItIsNotThere) {
  create_alive(5, spec_of(7));
  ended(5, 1, "signal 11");
  EXPECT_EQ(connect(2, 5), (Texts{"refuse 2, actor died: actor \"a\" ended: signal 11"}));
  EXPECT_EQ(connect(3, 6), (Texts{"refuse 3, not found: there is no actor 0000000000000006, or it ended long ago"}));
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(ActorTableTest, TooManyThatWaitForOneActorAreRefused) {
  create(1, 5, named("x"));
  for (std::uint64_t i = 1; i < ActorTable::kRequestsMax; ++i) ASSERT_EQ(connect(1 + i, 5), Texts{});
  const std::string why = ", overloaded: 65536 requests wait for actor \"a\"";
  EXPECT_EQ(connect(100'000, 5), (Texts{"refuse 100000" + why}));
  EXPECT_EQ(create(100'002, 7, spec_of(7)), (Texts{"start 7.1"})) << "another one's are counted apart";
  table_.drop_request(ActorRequestId{1});
  EXPECT_EQ(connect(100'003, 5), Texts{});
  EXPECT_EQ(started(5, 1).size(), ActorTable::kRequestsMax);
  EXPECT_EQ(hold(5, 7, -1), (Texts{"end 5.1"}));
}

TEST_F(ActorTableTest, ADroppedRequestIsNotAnswered) {
  create(1, 5, spec_of(7));
  connect(2, 5);
  connect(3, 5);
  table_.drop_request(ActorRequestId{2});
  table_.drop_request(ActorRequestId{2});
  table_.drop_request(ActorRequestId{99});
  EXPECT_EQ(started(5, 1), (Texts{"ready 1, 5.1", "ready 3, 5.1"}));
  table_.drop_request(ActorRequestId{1});
}

TEST_F(ActorTableTest, FindGivesTheActorOfThatNameIfItsTypeFitsAndHoldsIt) {
  create_alive(5, named("x"));
  EXPECT_EQ(find("y").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(find("y").error().message(), "there is no actor named \"y\" in namespace \"lab\"");
  EXPECT_EQ(table_.find("other", "x", "", CallerId{8}).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(find("x", "5Timer", 8).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(*find("x", "", 8), ActorId{5});
  EXPECT_EQ(*find("x", "7Counter", 8), ActorId{5});
  EXPECT_EQ(hold(5, 7, -1), Texts{});
  EXPECT_EQ(hold(5, 8, -1), Texts{}) << "found twice";
  EXPECT_EQ(hold(5, 8, -1), (Texts{"end 5.1"}));
  EXPECT_EQ(find("x").error().code(), ErrorCode::kNotFound);
}

TEST_F(ActorTableTest, AnActorEndsGentlyWhenNobodyHoldsItAnyMore) {
  create_alive(5, spec_with(-1));
  EXPECT_EQ(hold(5, 8, 2), Texts{});
  EXPECT_EQ(hold(5, 7, -1), Texts{});
  EXPECT_EQ(hold(5, 8, -1), Texts{});
  EXPECT_EQ(hold(5, 8, 0), Texts{});
  EXPECT_EQ(hold(5, 8, -1), (Texts{"end 5.1"}));
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(connect(2, 5), (Texts{"refuse 2" + kUnheld})) << "though its destructor runs still";
  EXPECT_EQ(hold(5, 8, 1), Texts{});
  EXPECT_EQ(hold(5, 8, -1), Texts{});
  EXPECT_EQ(ended(5, 1), Texts{}) << "no restart: it was asked to end";
  EXPECT_EQ(connect(3, 5), (Texts{"refuse 3" + kUnheld}));
}

TEST_F(ActorTableTest, AReleaseMayComeBeforeTheHoldThatItUndoes) {
  create_alive(5, spec_of(7));
  EXPECT_EQ(hold(5, 8, -1), Texts{});
  EXPECT_EQ(hold(5, 7, -1), Texts{}) << "somebody's hold of 8 is on its way";
  EXPECT_EQ(hold(5, 8, 1), (Texts{"end 5.1"}));
}

TEST_F(ActorTableTest, WhoTakesAnActorHasItThoughItsReleaseOfAnEarlierHoldCameFirst) {
  create_alive(5, named("x"));
  hold(5, 8, -1);
  EXPECT_EQ(*find("x", "", 8), ActorId{5});  // the count of caller 8 is zero now
  EXPECT_EQ(hold(5, 7, -1), Texts{});
  EXPECT_EQ(hold(5, 8, 0), Texts{});
  EXPECT_EQ(hold(5, 8, 1), Texts{});
  EXPECT_EQ(hold(5, 8, -1), (Texts{"end 5.1"}));

  create_alive(6, named("y"));
  hold(6, 8, -1);
  EXPECT_EQ(promise(9, named("y"), true, 8), "6");
  EXPECT_EQ(hold(6, 7, -1), Texts{});
  EXPECT_EQ(caller_ended(8), (Texts{"end 6.1"}));
}

TEST_F(ActorTableTest, HoldsOfActorsThatAreNotKnownAreIgnored) {
  EXPECT_EQ(hold(5, 7, 1), Texts{});
  create_alive(5, spec_of(7));
  EXPECT_EQ(hold(5, 7, -1), (Texts{"end 5.1"}));
}

TEST_F(ActorTableTest, ADetachedActorLivesWithoutHolders) {
  create_alive(5, detached());
  EXPECT_EQ(hold(5, 7, -1), Texts{});
  EXPECT_EQ(*find("d", "", 8), ActorId{5});
  EXPECT_EQ(caller_ended(8), Texts{});
  EXPECT_EQ(caller_ended(7), Texts{});
  EXPECT_EQ(*find("d", "", 9), ActorId{5});
  EXPECT_EQ(kill(5), (Texts{"kill 5.1"}));
}

TEST_F(ActorTableTest, AnActorThatLosesItsLastHoldWhileItStartsIsEndedWhenItHasStarted) {
  create(1, 5, spec_with(-1));
  EXPECT_EQ(hold(5, 7, -1), (Texts{"refuse 1" + kUnheld}));
  EXPECT_EQ(connect(2, 5), (Texts{"refuse 2" + kUnheld}));
  EXPECT_EQ(started(5, 1), (Texts{"end 5.1"}));
  EXPECT_EQ(started(5, 1), Texts{});
  EXPECT_EQ(ended(5, 1), Texts{});
}

TEST_F(ActorTableTest, AnActorThatLosesItsLastHoldAndThenDoesNotStartIsNotStartedAgain) {
  create(1, 5, spec_with(-1));
  hold(5, 7, -1);
  EXPECT_EQ(ended(5, 1), Texts{});
  create(2, 6, spec_with(-1));
  hold(6, 7, -1);
  EXPECT_EQ(constructor_failed(6, 1), (Texts{"end 6.1"}));
  EXPECT_EQ(connect(3, 6), (Texts{"refuse 3" + kUnheld})) << "why it ended first";
  EXPECT_EQ(ended(6, 1), Texts{});
  EXPECT_EQ(table_.next_tick(), std::nullopt);
}

TEST_F(ActorTableTest, AnActorThatLosesItsLastHoldWhileItWaitsForItsRestartIsNotStarted) {
  bring_to_restarting(spec_with(-1));
  connect(2, 5);
  EXPECT_EQ(hold(5, 7, -1), (Texts{"refuse 2" + kUnheld}));
  EXPECT_EQ(table_.next_tick(), std::nullopt);
  now_ += 1h;
  EXPECT_EQ(tick(), Texts{});
  EXPECT_EQ(connect(3, 5), (Texts{"refuse 3" + kUnheld}));
}

TEST_F(ActorTableTest, AKilledActorIsGoneForGoodAndRefusesWhoWaits) {
  create(1, 5, spec_with(-1));
  EXPECT_EQ(kill(5, "by its driver"),
            (Texts{"refuse 1, actor died: actor \"a\" was killed: by its driver", "kill 5.1"}));
  EXPECT_EQ(started(5, 1), Texts{}) << "the kill came too late to keep it from starting";
  EXPECT_EQ(constructor_failed(5, 1), Texts{});
  EXPECT_EQ(kill(5), Texts{});
  EXPECT_EQ(ended(5, 1), Texts{});
  EXPECT_EQ(kill(5), Texts{});
  EXPECT_EQ(connect(2, 5), (Texts{"refuse 2, actor died: actor \"a\" was killed: by its driver"}));

  create_alive(6, spec_with(-1));
  EXPECT_EQ(kill(6), (Texts{"kill 6.1"}));
  EXPECT_EQ(connect(3, 6), (Texts{"refuse 3, actor died: actor \"a\" was killed"}));
  EXPECT_EQ(hold(6, 7, -1), Texts{});
  EXPECT_EQ(caller_ended(7), Texts{});
  EXPECT_EQ(kill(99), Texts{});
}

TEST_F(ActorTableTest, AnActorThatIsKilledWhileItWaitsForItsRestartIsNotStarted) {
  bring_to_restarting(spec_with(-1));
  connect(2, 5);
  EXPECT_EQ(kill(5), (Texts{"refuse 2, actor died: actor \"a\" was killed"}));
  EXPECT_EQ(table_.next_tick(), std::nullopt);
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(ActorTableTest, AnActorThatTakesLongToEndCanBeKilledMeanwhile) {
  create_alive(5, spec_of(7));
  hold(5, 7, -1);
  EXPECT_EQ(kill(5), (Texts{"kill 5.1"}));
  EXPECT_EQ(kill(5), Texts{});
  EXPECT_EQ(connect(2, 5), (Texts{"refuse 2" + kUnheld})) << "why it ended first";
  create(1, 6, spec_of(7));
  hold(6, 7, -1);
  EXPECT_EQ(kill(6), (Texts{"kill 6.1"}));
  EXPECT_EQ(started(6, 1), Texts{});
  create(3, 8, spec_of(7));
  constructor_failed(8, 1);
  EXPECT_EQ(kill(8), (Texts{"kill 8.1"}));
}

TEST_F(ActorTableTest, TheHoldsOfACallerEndWithIt) {
  create_alive(5, spec_with(-1));
  create_alive(6, spec_with(-1));
  hold(5, 8, 3);
  hold(6, 8, 1);
  hold(5, 7, -1);
  EXPECT_EQ(caller_ended(8), (Texts{"end 5.1"}));
  EXPECT_EQ(caller_ended(8), Texts{});
  EXPECT_EQ(caller_ended(9), Texts{});
  EXPECT_EQ(caller_ended(7), (Texts{"end 6.1"}));
}

TEST_F(ActorTableTest, TheEndOfACallerUndoesItsReleasesThatCameTooEarly) {
  create_alive(5, spec_of(7));
  hold(5, 8, -1);
  hold(5, 7, -1);
  EXPECT_EQ(caller_ended(8), (Texts{"end 5.1"}));
}

TEST_F(ActorTableTest, TheEndOfACallerLeavesItsRequestsToTheOwnerOfTheTable) {
  create(1, 5, spec_of(7));
  hold(5, 8, 1);
  EXPECT_EQ(caller_ended(7), Texts{});
  EXPECT_EQ(table_.waiting(), 1u);
  table_.drop_request(ActorRequestId{1});
  EXPECT_EQ(started(5, 1), Texts{});
}

TEST_F(ActorTableTest, HoldsOfACallerThatHasEndedAreIgnored) {
  create_alive(5, named("x"));
  EXPECT_EQ(caller_ended(8), Texts{});
  EXPECT_EQ(hold(5, 8, 1), Texts{}) << "sent for it by another";
  EXPECT_EQ(*find("x", "", 8), ActorId{5});
  EXPECT_EQ(create(2, 6, spec_of(7), 8), (Texts{"refuse 2, owner died: the creator of actor \"a\" has ended"}));
  EXPECT_EQ(hold(5, 7, -1), (Texts{"end 5.1"}));
}

TEST_F(ActorTableTest, CallersThatEndedLongAgoAreForgotten) {
  create_alive(5, spec_of(7));
  caller_ended(100);
  for (std::uint64_t i = 1; i < Holders::kEndedMax; ++i) caller_ended(100 + i);
  hold(5, 100, 1);
  caller_ended(99);
  hold(5, 100, 2);
  EXPECT_EQ(hold(5, 7, -1), Texts{});
  EXPECT_EQ(hold(5, 100, -2), (Texts{"end 5.1"})) << "the first hold was ignored, the second one was not";
}

TEST_F(ActorTableTest, TheEndOfAJobKillsAndForgetsItsActorsInWhateverStateTheyAre) {
  bring_to_restarting(spec_with(-1));  // actor 5
  create(10, 10, spec_of(7));          // is starting
  create_alive(11, spec_of(7));
  create_alive(12, detached());
  create(13, 13, spec_of(7));
  hold(13, 7, -1);  // is to be ended once it has started
  create_alive(14, spec_of(7));
  hold(14, 7, -1);  // its destructor runs
  create_alive(15, spec_of(7));
  kill(15);
  create_alive(16, spec_of(7));
  ended(16, 1);
  create_alive(17, spec_of(8));
  connect(2, 5);
  EXPECT_EQ(sorted(job_ended(7)), (Texts{"kill 10.1", "kill 11.1", "kill 12.1", "kill 13.1", "kill 14.1",
                                         "refuse 10" + kJobOver, "refuse 2" + kJobOver}));
  for (const std::uint64_t actor : {5u, 10u, 11u, 12u, 13u, 14u, 15u, 16u}) {
    EXPECT_EQ(table_.look_at(ActorId{actor}), nullptr);
    EXPECT_EQ(started(actor, 1), Texts{});
    EXPECT_EQ(ended(actor, 1), Texts{});
    EXPECT_EQ(kill(actor), Texts{});
  }
  EXPECT_EQ(connect(3, 16).front().substr(0, 19), "refuse 3, not found");
  EXPECT_EQ(find("d").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(table_.next_tick(), std::nullopt);
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_EQ(job_ended(7), Texts{});
  EXPECT_EQ(connect(4, 17), (Texts{"ready 4, 17.1"}));
  EXPECT_EQ(caller_ended(7), (Texts{"end 17.1"})) << "what the job's driver held of others";
}

TEST_F(ActorTableTest, TheLastTenThousandDeadAreRemembered) {
  const std::uint64_t all = ActorTable::kDeadMax + 2;
  for (std::uint64_t i = 1; i <= all; ++i) {
    create(i, i, spec_of(7));
    kill(i);
  }
  for (std::uint64_t i = 1; i <= all; ++i) {
    ended(i, 1);
    ended(i, 1);  // an end that is reported twice counts once
  }
  EXPECT_EQ(connect(100'000, 1).front().substr(0, 24), "refuse 100000, not found");
  EXPECT_EQ(connect(100'001, 2).front().substr(0, 24), "refuse 100001, not found");
  EXPECT_EQ(connect(100'002, 3), (Texts{"refuse 100002, actor died: actor \"a\" was killed"}));
  EXPECT_EQ(connect(100'003, all), (Texts{"refuse 100003, actor died: actor \"a\" was killed"}));
  EXPECT_EQ(job_ended(7), Texts{});
  EXPECT_EQ(connect(100'004, all).front().substr(0, 24), "refuse 100004, not found");

  for (std::uint64_t i = 200'001; i <= 200'000 + all; ++i) {
    create(i, i, spec_of(8));
    ended(i, 1, "exit 3");
  }
  EXPECT_EQ(connect(100'005, 200'002).front().substr(0, 24), "refuse 100005, not found");
  EXPECT_EQ(connect(100'006, 200'003), (Texts{"refuse 100006, actor died: actor \"a\" ended: exit 3"}));
}

}  // namespace
}  // namespace pharos::scheduler
