#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <pharos/scheduler/actor_table.hpp>

#include "seed.hpp"

namespace pharos::scheduler {
namespace {

using namespace std::chrono_literals;

using Texts = std::vector<std::string>;

std::string incarnation_text(ActorId actor, std::uint32_t incarnation) {
  return std::to_string(actor.value()) + "." + std::to_string(incarnation);
}

std::string refused_text(std::uint64_t request, const Error& why) {
  return "refuse " + std::to_string(request) + ", " + std::string{to_string(why.code())} + ": " + why.message();
}

/// As texts, so that a difference can be read: 5.2 is the second incarnation of actor 5.
std::string to_text(const ActorEffect& effect) {
  if (const auto* const start = std::get_if<StartIncarnation>(&effect)) {
    return "start " + incarnation_text(start->actor, start->incarnation);
  }
  if (const auto* const end = std::get_if<EndIncarnation>(&effect)) {
    return (end->kill ? "kill " : "end ") + incarnation_text(end->actor, end->incarnation);
  }
  if (const auto* const ready = std::get_if<ActorReady>(&effect)) {
    return "ready " + std::to_string(ready->request.value()) + ", " +
           incarnation_text(ready->actor, ready->incarnation);
  }
  const auto& refused = std::get<ActorRefused>(effect);
  return refused_text(refused.request.value(), refused.why);
}

Texts texts(const ActorEffects& effects) {
  Texts result;
  std::transform(effects.begin(), effects.end(), std::back_inserter(result), to_text);
  return result;
}

Texts sorted(Texts texts) {
  std::sort(texts.begin(), texts.end());
  return texts;
}

ActorSpec spec_of(std::uint64_t job) {
  ActorSpec spec;
  spec.job = JobId{job};
  spec.label = "a";
  spec.type = "7Counter";
  return spec;
}

/// Job 7's driver, which creates what nobody else is said to create, is caller 7.
class ActorTableTest : public testing::Test {
 protected:
  ActorSpec spec_with(std::int32_t max_restarts) {
    ActorSpec spec = spec_of(7);
    spec.max_restarts = max_restarts;
    return spec;
  }
  ActorSpec named(const std::string& name) {
    ActorSpec spec = spec_of(7);
    spec.name = name;
    spec.name_space = "lab";
    return spec;
  }
  ActorSpec detached() {
    ActorSpec spec = named("d");
    spec.detached = true;
    return spec;
  }

  Texts create(std::uint64_t request, std::uint64_t actor, const ActorSpec& spec, std::uint64_t creator = 7) {
    return texts(table_.create(ActorRequestId{request}, ActorId{actor}, spec, CallerId{creator}));
  }
  /// The actor's number, or why not.
  std::string promise(std::uint64_t actor, const ActorSpec& spec, bool get_if_exists, std::uint64_t creator = 7) {
    const auto promised = table_.promise(ActorId{actor}, spec, get_if_exists, CallerId{creator});
    if (promised) return std::to_string(promised->value());
    return std::string{to_string(promised.error().code())} + ": " + promised.error().message();
  }
  Texts break_promise(std::uint64_t actor) {
    return texts(table_.break_promise(ActorId{actor}, {ErrorCode::kActorDied, "no arguments"}));
  }
  void create_alive(std::uint64_t actor, const ActorSpec& spec) {
    create(1000 + actor, actor, spec);
    started(actor, 1);
  }
  Texts connect(std::uint64_t request, std::uint64_t actor, std::uint32_t seen = 0) {
    return texts(table_.connect(ActorRequestId{request}, ActorId{actor}, seen));
  }
  Result<ActorId> find(const std::string& name, const std::string& type = "", std::uint64_t caller = 7) {
    return table_.find("lab", name, type, CallerId{caller});
  }
  Texts hold(std::uint64_t actor, std::uint64_t caller, std::int32_t count) {
    return texts(table_.hold(ActorId{actor}, CallerId{caller}, count));
  }
  Texts started(std::uint64_t actor, std::uint32_t incarnation) {
    return texts(table_.incarnation_started(ActorId{actor}, incarnation));
  }
  Texts constructor_failed(std::uint64_t actor, std::uint32_t incarnation) {
    return texts(table_.constructor_failed(ActorId{actor}, incarnation, {ErrorCode::kUserError, "no such file"}));
  }
  Texts ended(std::uint64_t actor, std::uint32_t incarnation, const std::string& reason = "it crashed") {
    return texts(table_.incarnation_ended(ActorId{actor}, incarnation, reason, now_));
  }
  Texts kill(std::uint64_t actor, const std::string& why = "") { return texts(table_.kill(ActorId{actor}, why)); }
  Texts caller_ended(std::uint64_t caller) { return texts(table_.caller_ended(CallerId{caller})); }
  Texts job_ended(std::uint64_t job) { return texts(table_.job_ended(JobId{job})); }
  Texts tick() { return texts(table_.tick(now_)); }

  /// Actor 5, whose second incarnation has ended too: the third waits for its time.
  void bring_to_restarting(const ActorSpec& spec) {
    create_alive(5, spec);
    ended(5, 1);
    ended(5, 2);
    ASSERT_EQ(table_.next_tick(), now_ + 100ms);
  }

  TimePoint now_{1h};
  ActorTable table_;
};

const std::string kUnheld = ", actor died: actor \"a\" ended: nobody holds it any more";
const std::string kJobOver = ", actor died: actor \"a\" ended: its job is over";

TEST_F(ActorTableTest, AnActorIsStartedAndItsCreatorAnsweredWhenItIsConstructed) {
  EXPECT_EQ(create(1, 5, spec_of(7)), (Texts{"start 5.1"}));
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_EQ(table_.waiting(), 1u);
  EXPECT_EQ(table_.find_spec(ActorId{5})->type, "7Counter");
  EXPECT_EQ(table_.find_spec(ActorId{6}), nullptr);
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

TEST_F(ActorTableTest, ATakenNameIsRefused) {
  create(1, 5, named("x"));
  EXPECT_EQ(create(2, 6, named("x")),
            (Texts{"refuse 2, already exists: there is an actor named \"x\" in namespace \"lab\" already"}));
  EXPECT_EQ(table_.find_spec(ActorId{6}), nullptr);
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
  EXPECT_EQ(caller_ended(8), (Texts{"refuse 1, actor died: actor \"a\" was not made: who was to make it ended before "
                                    "its constructor's arguments were there"}));
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
  EXPECT_EQ(table_.find_spec(ActorId{6}), nullptr);
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
  EXPECT_EQ(connect(4, 5, 1), Texts{});
  EXPECT_EQ(started(5, 2), (Texts{"ready 4, 5.2"}));
}

TEST_F(ActorTableTest, ConnectIsAnsweredWithTheSameIncarnationWhenTheConnectionAloneBroke) {
  create_alive(5, spec_with(1));
  EXPECT_EQ(connect(2, 5, 1), (Texts{"ready 2, 5.1"}));
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
  EXPECT_EQ(*find("x", "", 8), ActorId{5});  // 8's count is zero now
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

TEST_F(ActorTableTest, AFailedConstructorIsNotTriedAgain) {
  create(1, 5, spec_with(-1));
  EXPECT_EQ(constructor_failed(5, 1), (Texts{"refuse 1, user error: no such file", "end 5.1"}));
  EXPECT_EQ(connect(2, 5), (Texts{"refuse 2, user error: no such file"}));
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(constructor_failed(5, 1), Texts{});
  EXPECT_EQ(started(5, 1), Texts{});
  EXPECT_EQ(ended(5, 1), Texts{});
  EXPECT_EQ(connect(3, 5), (Texts{"refuse 3, user error: no such file"}));
}

TEST_F(ActorTableTest, AConstructorThatFailsAtARestartIsNotTriedAgainEither) {
  create_alive(5, spec_with(-1));
  ended(5, 1);
  EXPECT_EQ(constructor_failed(5, 1), Texts{}) << "stale";
  EXPECT_EQ(constructor_failed(5, 2), (Texts{"end 5.2"}));
  EXPECT_EQ(ended(5, 2), Texts{});
}

TEST_F(ActorTableTest, AnActorThatIsConstructedCannotFailToBe) {
  create_alive(5, spec_of(7));
  EXPECT_EQ(constructor_failed(5, 1), Texts{});
  EXPECT_EQ(connect(2, 5), (Texts{"ready 2, 5.1"}));
}

TEST_F(ActorTableTest, AnActorWithoutRestartsIsDeadWhenItsProcessIsGone) {
  create(1, 5, spec_of(7));
  EXPECT_EQ(ended(5, 1, "exit 3"), (Texts{"refuse 1, actor died: actor \"a\" ended: exit 3"}))
      << "it could not be started";
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(ended(5, 1), Texts{});
}

TEST_F(ActorTableTest, AnActorIsRestartedAsOftenAsItMayAndThenSaysHowOften) {
  create_alive(5, spec_with(1));
  EXPECT_EQ(ended(5, 1), (Texts{"start 5.2"}));
  EXPECT_EQ(ended(5, 2), Texts{});
  EXPECT_EQ(connect(2, 5), (Texts{"refuse 2, actor died: actor \"a\" ended: it crashed; it was restarted 1 time"}));

  create_alive(6, spec_with(2));
  ended(6, 1);
  ended(6, 2);
  now_ += 100ms;
  EXPECT_EQ(tick(), (Texts{"start 6.3"}));
  connect(3, 6);
  EXPECT_EQ(ended(6, 3), (Texts{"refuse 3, actor died: actor \"a\" ended: it crashed; it was restarted 2 times"}));
}

TEST_F(ActorTableTest, RestartsBackOffFromNothingOver100MillisecondsTo10Seconds) {
  create_alive(5, spec_with(-1));
  EXPECT_EQ(ended(5, 1), (Texts{"start 5.2"}));
  std::uint32_t incarnation = 2;
  for (const Duration pause : {100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 6400ms, 10000ms, 10000ms, 10000ms}) {
    started(5, incarnation);
    ASSERT_EQ(ended(5, incarnation), Texts{});
    ASSERT_EQ(table_.next_tick(), now_ + pause);
    now_ += pause - 1ns;
    ASSERT_EQ(tick(), Texts{});
    now_ += 1ns;
    ++incarnation;
    ASSERT_EQ(tick(), (Texts{"start 5." + std::to_string(incarnation)}));
    ASSERT_EQ(table_.next_tick(), std::nullopt);
  }
}

TEST_F(ActorTableTest, RestartsAreAtOnceAgainAfterAnIncarnationThatLivedFor60Seconds) {
  bring_to_restarting(spec_with(-1));
  now_ += 100ms;
  tick();
  started(5, 3);
  now_ += 60s - 1ns;
  EXPECT_EQ(ended(5, 3), Texts{});
  EXPECT_EQ(table_.next_tick(), now_ + 200ms);
  now_ += 200ms;
  tick();
  started(5, 4);
  now_ += 60s;
  EXPECT_EQ(ended(5, 4), (Texts{"start 5.5"}));
  EXPECT_EQ(ended(5, 5), Texts{});
  EXPECT_EQ(table_.next_tick(), now_ + 100ms);
}

TEST_F(ActorTableTest, AnIncarnationThatWasNeverConstructedHasNotLived) {
  bring_to_restarting(spec_with(-1));
  now_ += 100ms;
  tick();
  now_ += 1h;
  EXPECT_EQ(ended(5, 3), Texts{});
  EXPECT_EQ(table_.next_tick(), now_ + 200ms);
}

TEST_F(ActorTableTest, ALongLifeDoesNotBringBackRestarts) {
  create_alive(5, spec_with(1));
  ended(5, 1);
  started(5, 2);
  now_ += 1h;
  EXPECT_EQ(ended(5, 2), Texts{});
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(ActorTableTest, ATickStartsAllThatIsDueOldestFirstAndNothingElse) {
  for (const std::uint64_t actor : {5u, 6u, 7u}) {
    create_alive(actor, spec_with(-1));
    ended(actor, 1);
  }
  ended(6, 2);
  now_ += 10ms;
  ended(5, 2);
  now_ += 50ms;
  ended(7, 2);
  EXPECT_EQ(table_.next_tick(), now_ + 40ms);
  now_ += 50ms;
  EXPECT_EQ(tick(), (Texts{"start 6.3", "start 5.3"}));
  EXPECT_EQ(table_.next_tick(), now_ + 50ms);
}

TEST_F(ActorTableTest, EventsAboutOlderIncarnationsChangeNothing) {
  create_alive(5, spec_with(-1));
  ended(5, 1);
  connect(2, 5);
  EXPECT_EQ(started(5, 1), Texts{});
  EXPECT_EQ(ended(5, 1), Texts{});
  EXPECT_EQ(started(5, 3), Texts{}) << "nor about ones that are not there yet";
  EXPECT_EQ(ended(5, 3), Texts{});
  EXPECT_EQ(started(5, 2), (Texts{"ready 2, 5.2"}));
  ended(5, 2);
  EXPECT_EQ(started(5, 2), Texts{}) << "it is gone, and the third waits for its time";
  EXPECT_EQ(ended(5, 2), Texts{});
  EXPECT_EQ(constructor_failed(5, 2), Texts{});
  EXPECT_EQ(table_.next_tick(), now_ + 100ms);

  hold(5, 7, -1);
  create_alive(6, spec_with(-1));
  ended(6, 1);
  hold(6, 7, -1);
  EXPECT_EQ(started(6, 1), Texts{});
  EXPECT_EQ(ended(6, 1), Texts{});
  EXPECT_EQ(started(6, 2), (Texts{"end 6.2"}));
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
  for (std::uint64_t i = 1; i < ActorTable::kEndedCallersMax; ++i) caller_ended(100 + i);
  hold(5, 100, 1);
  caller_ended(99);
  hold(5, 100, 2);
  EXPECT_EQ(hold(5, 7, -1), Texts{});
  EXPECT_EQ(hold(5, 100, -2), (Texts{"end 5.1"})) << "the first hold was ignored, the second one was not";
}

TEST_F(ActorTableTest, TheEndOfAJobKillsAndForgetsItsActorsInWhateverStateTheyAre) {
  bring_to_restarting(spec_with(-1));  // 5
  create(10, 10, spec_of(7));          // starting
  create_alive(11, spec_of(7));
  create_alive(12, detached());
  create(13, 13, spec_of(7));
  hold(13, 7, -1);  // to be ended when it has started
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
    EXPECT_EQ(table_.find_spec(ActorId{actor}), nullptr);
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
    ended(i, 1);  // counts once
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

// The rules again, with no thought of speed: a list of actors, one of holds and one of requests, in the order in which
// they came.
class Model {
 public:
  struct Actor {
    ActorId id;
    ActorSpec spec;
    CallerId creator;
    std::string state = "promised";  // starting, alive, restarting, dead; asked to end: unwanted, ending, killed
    std::uint32_t incarnation = 0;
    std::vector<bool> long_lives = {};  // of its incarnations so far, whether they lived for long
    TimePoint asked_at = {};
    TimePoint due = {};
    std::optional<Error> why = {};

    bool lives() const {
      return state == "promised" || state == "starting" || state == "alive" || state == "restarting";
    }
    bool has_process() const { return state != "promised" && state != "restarting" && state != "dead"; }
  };
  struct Hold {
    ActorId actor;
    CallerId caller;
    std::int64_t count;
  };

  Result<ActorId> promise(ActorId id, const ActorSpec& spec, bool get_if_exists, CallerId creator) {
    if (ended_callers.contains(creator)) return Error{ErrorCode::kOwnerDied, kAnyText};
    if (find(id) != nullptr) return Error{ErrorCode::kAlreadyExists, kAnyText};
    if (Actor* const there = spec.name.empty() ? nullptr : named(spec.name_space, spec.name)) {
      if (!get_if_exists) return Error{ErrorCode::kAlreadyExists, kAnyText};
      if (there->spec.type != spec.type) return Error{ErrorCode::kInvalidArgument, kAnyText};
      take(*there, creator);
      return there->id;
    }
    actors.push_back({id, spec, creator});
    take(actors.back(), creator);
    return id;
  }
  Texts break_promise(ActorId id, const Error& why) {
    Actor* const actor = find(id);
    if (actor == nullptr || actor->state != "promised") return {};
    actor->state = "dead";
    return die(*actor, why);
  }
  Texts create(ActorRequestId request, ActorId id, const ActorSpec& spec, CallerId creator) {
    const Actor* const known = find(id);
    if (known != nullptr && known->state == "dead" && known->incarnation == 0) return refuse(request, *known->why);
    if (known == nullptr || known->state != "promised") {
      if (const auto promised = promise(id, spec, false, creator); !promised) return refuse(request, promised.error());
    }
    Actor& actor = *find(id);
    actor.state = "starting";
    actor.incarnation = 1;
    requests.emplace_back(request, id);
    Texts effects{"start " + incarnation_text(id, 1)};
    if (actor.spec.detached) return effects;
    for (std::string& text : end_if_unheld(actor)) effects.push_back(std::move(text));
    return effects;
  }
  Texts connect(ActorRequestId request, ActorId id) {
    const Actor* const actor = find(id);
    if (actor == nullptr) return refuse(request, {ErrorCode::kNotFound, kAnyText});
    if (!actor->lives()) return refuse(request, *actor->why);
    if (actor->state == "alive") return {ready(request, *actor)};
    requests.emplace_back(request, id);
    return {};
  }
  std::optional<ActorId> find(const std::string& name_space, const std::string& name, const std::string& type,
                              CallerId caller) {
    Actor* const actor = named(name_space, name);
    if (actor == nullptr || (!type.empty() && actor->spec.type != type)) return std::nullopt;
    take(*actor, caller);
    return actor->id;
  }
  Texts hold(ActorId id, CallerId caller, std::int32_t count) {
    Actor* const actor = find(id);
    if (actor == nullptr || !actor->lives() || actor->spec.detached) return {};
    if (ended_callers.contains(caller) || count == 0) return {};
    Hold& hold = hold_of(id, caller);
    hold.count += count;
    if (hold.count == 0) std::erase_if(holds, [&](const Hold& h) { return h.actor == id && h.caller == caller; });
    return end_if_unheld(*actor);
  }
  Texts started(ActorId id, std::uint32_t incarnation) {
    Actor* const actor = process(id, incarnation);
    if (actor == nullptr) return {};
    if (actor->state == "unwanted") {
      actor->state = "ending";
      return {"end " + incarnation_text(id, incarnation)};
    }
    if (actor->state != "starting") return {};
    actor->state = "alive";
    return answer(id, [&](ActorRequestId request) { return ready(request, *actor); });
  }
  Texts constructor_failed(ActorId id, std::uint32_t incarnation, const Error& why) {
    Actor* const actor = process(id, incarnation);
    if (actor == nullptr || (actor->state != "starting" && actor->state != "unwanted")) return {};
    Texts effects = actor->state == "starting" ? die(*actor, why) : Texts{};
    actor->state = "ending";
    effects.push_back("end " + incarnation_text(id, incarnation));
    return effects;
  }
  Texts ended(ActorId id, std::uint32_t incarnation, const std::string& reason, TimePoint now) {
    Actor* const actor = process(id, incarnation);
    if (actor == nullptr) return {};
    if (!actor->lives()) {
      actor->state = "dead";
      return {};
    }
    const auto restarts = static_cast<std::int64_t>(actor->long_lives.size());
    if (actor->spec.max_restarts >= 0 && restarts >= actor->spec.max_restarts) {
      std::string text = "actor \"" + actor->spec.label + "\" ended: " + reason;
      if (restarts == 1) text += "; it was restarted 1 time";
      if (restarts > 1) text += "; it was restarted " + std::to_string(restarts) + " times";
      Texts effects = die(*actor, {ErrorCode::kActorDied, text});
      actor->state = "dead";
      return effects;
    }
    actor->long_lives.push_back(incarnation > 1 && actor->state == "alive" && now - actor->asked_at >= 60s);
    actor->state = "restarting";
    Duration pause = 0s;
    for (std::size_t i = 1; i < actor->long_lives.size(); ++i) {
      pause = actor->long_lives[i] ? 0s : pause == 0s ? 100ms : std::min<Duration>(2 * pause, 10s);
    }
    actor->due = now + pause;
    return pause == 0s ? start(*actor, now) : Texts{};
  }
  Texts kill(ActorId id, const std::string& why) {
    Actor* const actor = find(id);
    if (actor == nullptr) return {};
    Texts effects;
    if (actor->lives()) {
      effects = die(*actor, {ErrorCode::kActorDied, "actor \"" + actor->spec.label + "\" was killed: " + why});
    }
    if (!actor->has_process()) actor->state = "dead";
    return kill_process(*actor, effects);
  }
  Texts caller_ended(CallerId caller) {
    ended_callers.insert(caller);
    Texts effects;
    for (Actor& actor : actors) {
      if (actor.creator != caller) continue;
      const std::string text =
          "actor \"" + actor.spec.label +
          "\" was not made: who was to make it ended before its constructor's arguments were there";
      for (std::string& each : break_promise(actor.id, {ErrorCode::kActorDied, text}))
        effects.push_back(std::move(each));
    }
    for (Actor& actor : actors) {
      const bool held =
          std::erase_if(holds, [&](const Hold& hold) { return hold.actor == actor.id && hold.caller == caller; }) > 0;
      if (!held || !actor.lives()) continue;
      for (std::string& text : end_if_unheld(actor)) effects.push_back(std::move(text));
    }
    return effects;
  }
  void drop_request(ActorRequestId request) {
    std::erase_if(requests, [&](const auto& waiting) { return waiting.first == request; });
  }
  Texts job_ended(JobId job) {
    Texts effects;
    for (Actor& actor : actors) {
      if (actor.spec.job != job) continue;
      if (actor.lives()) {
        for (std::string& text :
             die(actor, {ErrorCode::kActorDied, "actor \"" + actor.spec.label + "\" ended: its job is over"})) {
          effects.push_back(std::move(text));
        }
      }
      effects = kill_process(actor, effects);
    }
    std::erase_if(actors, [&](const Actor& actor) { return actor.spec.job == job; });
    return effects;
  }
  Texts tick(TimePoint now) {
    Texts effects;
    while (Actor* const next = next_restart()) {
      if (next->due > now) break;
      effects.push_back(start(*next, now).front());
    }
    return effects;
  }
  Actor* next_restart() {
    Actor* next = nullptr;
    for (Actor& actor : actors) {
      if (actor.state != "restarting") continue;
      if (next == nullptr || std::pair{actor.due, actor.id} < std::pair{next->due, next->id}) next = &actor;
    }
    return next;
  }
  std::size_t size() const {
    return static_cast<std::size_t>(std::count_if(actors.begin(), actors.end(), [](auto& a) { return a.lives(); }));
  }

  static constexpr const char* kAnyText = "";  // the tests above look at these

  std::vector<Actor> actors;
  std::vector<Hold> holds;
  std::vector<std::pair<ActorRequestId, ActorId>> requests;
  std::set<CallerId> ended_callers;

 private:
  static Texts refuse(ActorRequestId request, const Error& why) { return {refused_text(request.value(), why)}; }
  static std::string ready(ActorRequestId request, const Actor& actor) {
    return "ready " + std::to_string(request.value()) + ", " + incarnation_text(actor.id, actor.incarnation);
  }
  Actor* find(ActorId id) {
    const auto found = std::find_if(actors.begin(), actors.end(), [&](const Actor& actor) { return actor.id == id; });
    return found == actors.end() ? nullptr : &*found;
  }
  Actor* process(ActorId id, std::uint32_t incarnation) {
    Actor* const actor = find(id);
    return actor != nullptr && actor->has_process() && actor->incarnation == incarnation ? actor : nullptr;
  }
  Actor* named(const std::string& name_space, const std::string& name) {
    for (Actor& actor : actors) {
      if (actor.lives() && actor.spec.name_space == name_space && actor.spec.name == name) return &actor;
    }
    return nullptr;
  }
  Hold& hold_of(ActorId id, CallerId caller) {
    for (Hold& hold : holds) {
      if (hold.actor == id && hold.caller == caller) return hold;
    }
    holds.push_back({id, caller, 0});
    return holds.back();
  }
  void take(const Actor& actor, CallerId caller) {
    if (!actor.spec.detached && !ended_callers.contains(caller)) ++hold_of(actor.id, caller).count;
  }
  template <class Answer>
  Texts answer(ActorId id, const Answer& with) {
    Texts effects;
    std::erase_if(requests, [&](const auto& waiting) {
      if (waiting.second == id) effects.push_back(with(waiting.first));
      return waiting.second == id;
    });
    return effects;
  }
  Texts start(Actor& actor, TimePoint now) {
    actor.state = "starting";
    actor.asked_at = now;
    return {"start " + incarnation_text(actor.id, ++actor.incarnation)};
  }
  Texts die(Actor& actor, const Error& why) {
    actor.why = why;
    std::erase_if(holds, [&](const Hold& hold) { return hold.actor == actor.id; });
    return answer(actor.id, [&](ActorRequestId request) { return refused_text(request.value(), why); });
  }
  Texts end_if_unheld(Actor& actor) {
    if (actor.state == "promised") return {};
    if (std::any_of(holds.begin(), holds.end(), [&](const Hold& hold) { return hold.actor == actor.id; })) return {};
    Texts effects =
        die(actor, {ErrorCode::kActorDied, "actor \"" + actor.spec.label + "\" ended: nobody holds it any more"});
    if (actor.state == "alive") effects.push_back("end " + incarnation_text(actor.id, actor.incarnation));
    actor.state = actor.state == "restarting" ? "dead" : actor.state == "starting" ? "unwanted" : "ending";
    return effects;
  }
  static Texts kill_process(Actor& actor, Texts effects) {
    if (!actor.has_process() || actor.state == "killed") return effects;
    actor.state = "killed";
    effects.push_back("kill " + incarnation_text(actor.id, actor.incarnation));
    return effects;
  }
};

class ActorTableAgainstTheModel : public SeededTest {
 protected:
  void run(std::uint64_t seed) {
    random_.seed(seed);
    table_ = {};
    model_ = {};
    processes_.clear();
    asked_.clear();
    answered_.clear();
    dropped_.clear();
    now_ = TimePoint{1h};
    last_id_ = 0;
    const std::size_t jobs = between(1, 3);
    const std::size_t callers = between(1, 6);
    const bool callers_end = chance(2);

    for (int step = 0; step < 200; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      now_ += Duration{chance(20) ? 60'000'000'000 : chance(5) ? 0 : between(0, 200'000'000)};
      const ActorId actor = any_actor();
      const CallerId caller{between(1, callers)};
      const JobId job{between(1, jobs)};
      const std::size_t what = between(0, 99);
      if (what < 14) {
        create(job, caller);
      } else if (what < 17) {
        break_promise();
      } else if (what < 27) {
        const ActorRequestId request = ask();
        expect(table_.connect(request, actor, incarnation_of(actor)), model_.connect(request, actor));
      } else if (what < 31) {
        find(caller);
      } else if (what < 45) {
        static constexpr std::int32_t kCounts[] = {-2, -1, -1, -1, 0, 1, 1, 2};
        const std::int32_t count = kCounts[between(0, 7)];
        expect(table_.hold(actor, caller, count), model_.hold(actor, caller, count));
      } else if (what < 60) {
        const std::uint32_t incarnation = incarnation_of(actor);
        expect(table_.incarnation_started(actor, incarnation), model_.started(actor, incarnation));
      } else if (what < 63) {
        const std::uint32_t incarnation = incarnation_of(actor);
        const Error why{ErrorCode::kUserError, "no " + std::to_string(step)};
        expect(table_.constructor_failed(actor, incarnation, why), model_.constructor_failed(actor, incarnation, why));
      } else if (what < 80) {
        const std::uint32_t incarnation = incarnation_of(actor);
        end_process(actor, incarnation);
      } else if (what < 84) {
        const std::string why = "at " + std::to_string(step);
        expect(table_.kill(actor, why), model_.kill(actor, why));
      } else if (what < 85) {
        if (callers_end) expect_in_any_order(table_.caller_ended(caller), model_.caller_ended(caller));
      } else if (what < 89) {
        drop();
      } else if (what < 90) {
        expect_in_any_order(table_.job_ended(job), model_.job_ended(job));
        std::erase_if(processes_, [&](const auto& process) { return table_.find_spec(process.first) == nullptr; });
      } else {
        if (const auto next = table_.next_tick(); next.has_value() && chance(2)) now_ = std::max(now_, *next);
        expect(table_.tick(now_), model_.tick(now_));
      }
      if (HasFatalFailure()) return;
      look();
      if (HasFatalFailure()) return;
    }

    for (std::uint64_t job = 1; job <= jobs; ++job) {
      expect_in_any_order(table_.job_ended(JobId{job}), model_.job_ended(JobId{job}));
      if (HasFatalFailure()) return;
    }
    look();
    ASSERT_EQ(table_.size(), 0u);
    ASSERT_EQ(table_.waiting(), 0u);
    for (const ActorRequestId request : asked_) {
      ASSERT_NE(answered_.contains(request), dropped_.contains(request)) << "request " << request.value();
    }
  }

  void create(JobId job, CallerId creator) {
    ActorSpec spec = spec_of(job.value());
    spec.max_restarts = static_cast<std::int32_t>(between(0, 5)) - 1;
    spec.detached = chance(6);
    spec.name = chance(2) ? "" : std::string{chance(2) ? "x" : "y"};
    spec.name_space = chance(4) ? "other" : "lab";
    if (chance(6)) spec.type = "5Timer";
    const ActorId id = chance(4) ? any_actor() : ActorId{++last_id_};
    spec.label = std::to_string(id.value());
    if (chance(2)) {
      const bool get_if_exists = chance(2);
      const auto promised = table_.promise(id, spec, get_if_exists, creator);
      const auto expected = model_.promise(id, spec, get_if_exists, creator);
      ASSERT_EQ(promised.ok() ? std::optional{*promised} : std::nullopt,
                expected.ok() ? std::optional{*expected} : std::nullopt);
      return;
    }
    const ActorRequestId request = ask();
    expect(table_.create(request, id, spec, creator), model_.create(request, id, spec, creator));
  }
  void break_promise() {
    const ActorId actor = any_actor();
    const Error why{ErrorCode::kActorDied, "no arguments"};
    expect(table_.break_promise(actor, why), model_.break_promise(actor, why));
  }

  void find(CallerId caller) {
    const std::string name_space = chance(4) ? "other" : "lab";
    const std::string name = chance(2) ? "x" : "y";
    const std::string type = chance(2) ? "" : chance(4) ? "5Timer" : "7Counter";
    const auto found = table_.find(name_space, name, type, caller);
    ASSERT_EQ(found.ok() ? std::optional{*found} : std::nullopt, model_.find(name_space, name, type, caller));
  }

  void end_process(ActorId actor, std::uint32_t incarnation) {
    if (const auto process = processes_.find(actor); process != processes_.end() && process->second == incarnation) {
      processes_.erase(process);
    }
    expect(table_.incarnation_ended(actor, incarnation, "it crashed", now_),
           model_.ended(actor, incarnation, "it crashed", now_));
  }

  void drop() {
    ActorRequestId request{++last_id_};  // one that is not known
    if (!model_.requests.empty() && !chance(5)) {
      request = model_.requests[between(0, model_.requests.size() - 1)].first;
      dropped_.insert(request);
    } else if (!answered_.empty() && chance(2)) {
      request = *answered_.begin();
    }
    table_.drop_request(request);
    model_.drop_request(request);
  }

  ActorRequestId ask() {
    const ActorRequestId request{++last_id_};
    asked_.insert(request);
    return request;
  }
  /// One of the latest, most of the time.
  ActorId any_actor() {
    if (model_.actors.empty() || chance(20)) return ActorId{++last_id_};
    const std::size_t last = model_.actors.size() - 1;
    return model_.actors[between(chance(5) || last < 4 ? 0 : last - 4, last)].id;
  }
  /// The present one, most of the time.
  std::uint32_t incarnation_of(ActorId id) {
    for (const Model::Actor& actor : model_.actors) {
      if (actor.id != id) continue;
      return chance(10) ? actor.incarnation - 1 : chance(20) ? actor.incarnation + 1 : actor.incarnation;
    }
    return 1;
  }

  void expect_in_any_order(const ActorEffects& effects, Texts expected) { expect(effects, std::move(expected), true); }
  void expect(const ActorEffects& effects, Texts expected, bool in_any_order = false) {
    Texts got = texts(without_text(effects));
    if (in_any_order) {
      got = sorted(got);
      expected = sorted(expected);
    }
    ASSERT_EQ(got, expected);
    for (const ActorEffect& effect : effects) {
      if (const auto* const start = std::get_if<StartIncarnation>(&effect)) {
        const bool alone = processes_.emplace(start->actor, start->incarnation).second;
        ASSERT_TRUE(alone) << "two processes of actor " << start->actor.value();
      } else if (const auto* const ready = std::get_if<ActorReady>(&effect)) {
        answered(ready->request);
      } else if (const auto* const refused = std::get_if<ActorRefused>(&effect)) {
        answered(refused->request);
      } else {
        const auto& end = std::get<EndIncarnation>(effect);
        const auto process = processes_.find(end.actor);
        ASSERT_TRUE(process != processes_.end() && process->second == end.incarnation) << "it has no such process";
      }
    }
  }
  void answered(ActorRequestId request) {
    ASSERT_TRUE(asked_.contains(request)) << "nobody asked";
    ASSERT_FALSE(dropped_.contains(request)) << "nobody waits";
    ASSERT_TRUE(answered_.insert(request).second) << "answered twice";
  }
  /// What refuses at once says something that the model does not.
  static ActorEffects without_text(ActorEffects effects) {
    for (ActorEffect& effect : effects) {
      auto* const refused = std::get_if<ActorRefused>(&effect);
      if (refused == nullptr) continue;
      const ErrorCode code = refused->why.code();
      if (code != ErrorCode::kActorDied && code != ErrorCode::kUserError) refused->why = {code, Model::kAnyText};
    }
    return effects;
  }

  void look() {
    ASSERT_EQ(table_.size(), model_.size());
    ASSERT_EQ(table_.waiting(), model_.requests.size());
    const Model::Actor* const next = model_.next_restart();
    ASSERT_EQ(table_.next_tick(), next == nullptr ? std::nullopt : std::optional{next->due});
    for (const Model::Actor& actor : model_.actors) {
      ASSERT_NE(table_.find_spec(actor.id), nullptr);
      ASSERT_EQ(processes_.contains(actor.id), actor.has_process()) << "actor " << actor.id.value();
    }
  }

  ActorTable table_;
  Model model_;
  std::map<ActorId, std::uint32_t> processes_;  // that were asked for, and not reported gone
  std::set<ActorRequestId> asked_;
  std::set<ActorRequestId> answered_;
  std::set<ActorRequestId> dropped_;
  TimePoint now_;
  std::uint64_t last_id_ = 0;
};

TEST_F(ActorTableAgainstTheModel, DoesTheSameInTwoThousandRandomRunsAndAnswersEachRequestOnce) {
  for (std::uint64_t run_number = 0; run_number < 2000; ++run_number) {
    SCOPED_TRACE("run " + std::to_string(run_number));
    run(seed_ + run_number);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace pharos::scheduler
