#include "caller/known_actors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <typeinfo>
#include <vector>

#include <pharos/actors/exceptions.hpp>

#include "node_fixture.hpp"
#include "says.hpp"

namespace pharos::actors {
namespace {

using detail::ActorHandle;
using detail::CellHandle;

constexpr ActorId kActor{17};
constexpr ActorId kOther{18};

struct Counter {};

class KnownActorsTest : public NodeTest {
 protected:
  KnownActorsTest() { connector_->join(kCaller, known_); }
  ~KnownActorsTest() override {
    const Error over{ErrorCode::kRuntimeStopped, "the test is over"};
    line_->hang_up(over);
    known_->lose_all(over);
    pending_->fail_all(over);
    end();
  }

  std::shared_ptr<ActorHandle> adopt(ActorId actor = kActor, bool held = false) {
    return known_->adopt(actor, "counter", held);
  }
  std::shared_ptr<ActorHandle> spawn(const ActorOptions& options = {}, const std::string& label = {}) {
    return known_->spawn(options, typeid(Counter).name(), constructor_, arguments_, label);
  }
  std::vector<ActorId> known() {
    std::vector<ActorId> ids;
    for (const auto& actor : known_->all()) ids.push_back(actor->id());
    std::ranges::sort(ids);
    return ids;
  }
  /// Says which counts the node has heard in messages HoldActor by now.
  std::vector<int> counts() {
    std::vector<int> counts;
    for (const auto& each : all_heard<wire::HoldActor>()) counts.push_back(each.count);
    return counts;
  }
  /// Adopts the actor, and connects it to a worker as this incarnation.
  WorkerByHand connect(std::shared_ptr<ActorHandle>& actor, std::uint32_t incarnation = 1) {
    actor = adopt();
    auto worker = node_.offer_worker(node_.next<wire::ConnectActor>(),
                                     {.worker = WorkerId{9}, .actor = kActor, .incarnation = incarnation});
    settle();
    return worker;
  }

  const detail::RegisteredFunction constructor_{{.tag = &typeid(Counter)}, 0};
  detail::Arguments arguments_;
  const std::shared_ptr<KnownActors> known_ = std::make_shared<KnownActors>(line_, connector_, pending_);
};

using Counts = std::vector<int>;
using Ids = std::vector<ActorId>;

TEST_F(KnownActorsTest, TheFirstHandleIsCountedByARequestAndFurtherOnesSendNothing) {
  const auto first = adopt();
  const auto hold = node_.next<wire::HoldActor>();
  EXPECT_EQ(hold.message.actor, kActor);
  EXPECT_EQ(hold.message.count, 1);
  EXPECT_TRUE(hold.request) << "the node says when the head has counted it";
  const auto second = adopt();
  const auto third = known_->receive({kActor, "counter"});
  EXPECT_EQ(counts(), Counts{});
  EXPECT_EQ(first->calls(), second->calls()) << "all handles stand for the same connection";
  EXPECT_EQ(first->calls(), third->calls());
}

TEST_F(KnownActorsTest, AReceivedHandleIsTheFirstOne) {
  const auto first = known_->receive({kActor, "counter"});
  EXPECT_EQ(counts(), Counts{1});
  EXPECT_EQ(first->label(), "counter");
}

TEST_F(KnownActorsTest, TheLastHandleThatGoesGivesTheHoldBack) {
  auto first = adopt();
  auto second = adopt();
  EXPECT_EQ(counts(), Counts{1});
  first.reset();
  EXPECT_EQ(counts(), Counts{});
  EXPECT_EQ(known(), Ids{kActor});
  second.reset();
  const auto gone = node_.next<wire::HoldActor>();
  EXPECT_EQ(gone.message.actor, kActor);
  EXPECT_EQ(gone.message.count, -1);
  EXPECT_FALSE(gone.request);
  EXPECT_EQ(known(), Ids{});
}

TEST_F(KnownActorsTest, AnActorThatComesBackIsCountedAnew) {
  adopt().reset();
  const auto again = adopt();
  EXPECT_EQ(counts(), (Counts{1, -1, 1}));
}

TEST_F(KnownActorsTest, AHoldThatTheHeadHasCountedIsNotAskedForAndGivenBackForAnActorThatIsKnown) {
  const auto first = adopt(kActor, true);
  EXPECT_EQ(counts(), Counts{});
  auto second = adopt(kActor, true);
  const auto spare = node_.next<wire::HoldActor>();
  EXPECT_EQ(spare.message.actor, kActor);
  EXPECT_EQ(spare.message.count, -1);
  EXPECT_FALSE(spare.request);
  second.reset();
  EXPECT_EQ(counts(), Counts{}) << "the first handle is still there";
  EXPECT_EQ(known(), Ids{kActor});
}

TEST_F(KnownActorsTest, WhenHeldRunsOnlyWhenTheNodeHasAnsweredAllHoldsThatWereAskedForBefore) {
  std::atomic<bool> ran = false;
  const auto first = adopt(kActor);
  const auto second = adopt(kOther);
  known_->when_held([&] { ran = true; });
  const auto later = adopt(ActorId{19});
  const auto first_hold = node_.next<wire::HoldActor>();
  const auto second_hold = node_.next<wire::HoldActor>();
  settle();
  EXPECT_FALSE(ran);
  node_.answer(second_hold, wire::ActorHeld{});
  settle();
  EXPECT_FALSE(ran) << "the first hold does not count yet";
  node_.answer(first_hold, wire::ActorHeld{});
  settle();
  on_strand([] {});
  EXPECT_TRUE(ran) << "the third hold came later";
}

TEST_F(KnownActorsTest, WhenHeldRunsAfterTheNodeHasBeenToldWhatItWasToBeTold) {
  StrandHeld held{line_->executor()};
  line_->tell(wire::KillActor{ActorId{1}});
  known_->when_held([&] { line_->send_now(wire::KillActor{ActorId{2}}); });
  held.release();
  const auto heard = all_heard<wire::KillActor>();
  ASSERT_EQ(heard.size(), 2U);
  EXPECT_EQ(heard[0].actor, ActorId{1});
}

TEST_F(KnownActorsTest, WithoutAHoldUnderWayWaitUntilHeldReturnsAtOnce) {
  const auto actor = adopt(kActor, true);
  settle();
  const StrandHeld held{line_->executor()};
  auto waits = in_thread([known = known_] { known->wait_until_held(); });
  outcome_of(waits);
}

TEST_F(KnownActorsTest, WaitUntilHeldWaitsForTheAnswersOfTheNode) {
  const auto actor = adopt(kActor);
  const auto other = adopt(kOther);
  auto waits = in_thread([known = known_] { known->wait_until_held(); });
  EXPECT_FALSE(is_over(waits));
  node_.answer(node_.next<wire::HoldActor>(), wire::ActorHeld{});
  settle();
  EXPECT_FALSE(is_over(waits));
  node_.answer(node_.next<wire::HoldActor>(), wire::ActorHeld{});
  outcome_of(waits);
}

TEST_F(KnownActorsTest, NobodyWaitsForANodeThatIsGone) {
  const auto actor = adopt();
  node_.next<wire::HoldActor>();
  auto waits = in_thread([known = known_] { known->wait_until_held(); });
  EXPECT_FALSE(is_over(waits));
  line_->hang_up({ErrorCode::kUnavailable, "the node is gone"});
  node_.hang_up();
  outcome_of(waits);
}

TEST_F(KnownActorsTest, ANewActorIsStartedAndKnownAndItsHoldIsNotAskedFor) {
  auto actor = spawn({.name = "one", .max_restarts = 2}, "the label");
  EXPECT_EQ(known(), Ids{actor->id()});
  const auto start = node_.next<wire::StartActor>();
  ASSERT_TRUE(start.request);
  EXPECT_EQ(start.message.actor, actor->id());
  EXPECT_EQ(start.message.label, "the label");
  EXPECT_EQ(start.message.name, "one");
  EXPECT_EQ(start.message.name_space, to_string(kJob)) << "without a name space only this program finds it";
  EXPECT_EQ(start.message.type, typeid(Counter).name());
  EXPECT_EQ(start.message.max_restarts, 2);
  EXPECT_EQ(counts(), Counts{});
  actor.reset();
  EXPECT_EQ(counts(), Counts{-1});
  EXPECT_EQ(known(), Ids{});
}

TEST_F(KnownActorsTest, AnActorIsCalledByItsLabelOrItsNameOrItsType) {
  EXPECT_EQ(spawn({.name = "one"}, "the label")->label(), "the label");
  EXPECT_EQ(spawn({.name = "one"})->label(), "one");
  EXPECT_SAYS(spawn()->label(), "Counter");
}

TEST_F(KnownActorsTest, AnActorThatMakesNoSenseIsNotMade) {
  EXPECT_THROW(spawn({.name = std::string(257, 'x')}), InvalidArgument);
  EXPECT_THROW(spawn({.name = "one", .name_space = std::string(257, 'x')}), InvalidArgument);
  EXPECT_THROW(spawn({.cpus = -1}), InvalidArgument);
  const detail::RegisteredFunction loaded_later{{.tag = &typeid(Counter)}, detail::RegisteredFunction::kNoIndex};
  EXPECT_THROW(known_->spawn({}, typeid(Counter).name(), loaded_later, arguments_), FunctionNotFound);
  EXPECT_EQ(known(), Ids{});
  EXPECT_TRUE(all_heard<wire::StartActor>().empty());
}

TEST_F(KnownActorsTest, AChildOfForkMakesAndFindsNoActors) {
  line_->abandon();
  EXPECT_THROW(spawn(), RuntimeStopped);
  EXPECT_EQ(known_->find("one", "", typeid(Counter).name()).error().code(), ErrorCode::kRuntimeStopped);
}

TEST_F(KnownActorsTest, AnActorWhoseArgumentsAreNotThereIsPromisedAndStartedWhenTheyAre) {
  const CellHandle argument = pending_->new_cell();
  arguments_.context.placeholders.push_back({.what = detail::Placeholder::kResult, .offset = 0, .cell = argument});
  const auto actor = spawn({.name = "one"});
  const auto promise = node_.next<wire::PromiseActor>();
  EXPECT_FALSE(promise.request);
  EXPECT_EQ(promise.message.actor, actor->id());
  EXPECT_TRUE(all_heard<wire::StartActor>().empty());
  const std::byte value[] = {std::byte{42}};
  argument->set_value(value);
  const auto start = node_.next<wire::StartActor>();
  EXPECT_EQ(start.message.actor, actor->id());
  EXPECT_EQ(start.message.arguments, std::vector<std::byte>(1, std::byte{42}));
}

TEST_F(KnownActorsTest, AnActorWhoseArgumentIsAnErrorIsLostAndItsPromiseBroken) {
  const CellHandle argument = pending_->new_cell();
  arguments_.context.placeholders.push_back({.what = detail::Placeholder::kResult, .offset = 0, .cell = argument});
  const auto actor = spawn();
  const CellHandle waits = call(*actor->calls());
  argument->set_error({ErrorCode::kUserError, "the argument failed"});
  EXPECT_EQ(error_of(waits).code(), ErrorCode::kActorDied);
  EXPECT_SAYS(error_of(waits).message(), "the argument failed");
  const auto broken = node_.next<wire::BreakPromise>();
  EXPECT_EQ(broken.message.actor, actor->id());
  EXPECT_EQ(known(), Ids{});
}

TEST_F(KnownActorsTest, WithGetIfExistsSpawnWaitsForTheNodeAndReturnsTheActorThatExists) {
  auto spawned = in_thread([this] { return spawn({.name = "one", .get_if_exists = true}); });
  const auto promise = node_.next<wire::PromiseActor>();
  EXPECT_TRUE(promise.message.get_if_exists);
  EXPECT_FALSE(is_over(spawned));
  node_.answer(promise, wire::ActorFound{kActor, "the other's label"});
  const auto actor = outcome_of(spawned);
  EXPECT_EQ(actor->id(), kActor);
  EXPECT_EQ(actor->label(), "the other's label");
  EXPECT_EQ(counts(), Counts{}) << "the head has counted the hold";
  EXPECT_TRUE(all_heard<wire::StartActor>().empty());
}

TEST_F(KnownActorsTest, WithGetIfExistsAnActorThatDoesNotExistIsMade) {
  auto spawned = in_thread([this] { return spawn({.name = "one", .get_if_exists = true}); });
  const auto promise = node_.next<wire::PromiseActor>();
  node_.answer(promise, wire::ActorFound{promise.message.actor, "one"});
  const auto actor = outcome_of(spawned);
  EXPECT_EQ(actor->id(), promise.message.actor);
  EXPECT_EQ(node_.next<wire::StartActor>().message.actor, actor->id());
}

TEST_F(KnownActorsTest, WithGetIfExistsARefusalIsTheErrorOfTheCalls) {
  auto spawned = in_thread([this] { return spawn({.name = "one", .get_if_exists = true}); });
  node_.refuse(node_.next<wire::PromiseActor>(), {ErrorCode::kInvalidArgument, "it is of another type"});
  const auto actor = outcome_of(spawned);
  const Error why = error_of(call(*actor->calls()));
  EXPECT_EQ(why.code(), ErrorCode::kInvalidArgument);
  EXPECT_SAYS(why.message(), "another type");
  EXPECT_TRUE(all_heard<wire::StartActor>().empty());
  EXPECT_EQ(known(), Ids{});
}

TEST_F(KnownActorsTest, FindWaitsForTheNodeAndTheHoldIsCountedAlready) {
  const auto find = [this] { return known_->find("one", "", typeid(Counter).name()); };
  auto first = in_thread(find);
  const auto question = node_.next<wire::FindActor>();
  EXPECT_EQ(question.message.name, "one");
  EXPECT_EQ(question.message.name_space, to_string(kJob));
  EXPECT_EQ(question.message.type, typeid(Counter).name());
  EXPECT_FALSE(is_over(first));
  node_.answer(question, wire::ActorFound{kActor, "one"});
  const auto actor = outcome_of(first);
  ASSERT_TRUE(actor.ok());
  EXPECT_EQ((*actor)->id(), kActor);
  EXPECT_EQ(counts(), Counts{});
  auto second = in_thread(find);
  node_.answer(node_.next<wire::FindActor>(), wire::ActorFound{kActor, "one"});
  const auto again = outcome_of(second);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(counts(), Counts{-1}) << "this process holds an actor once";
}

TEST_F(KnownActorsTest, FindAsksForTheGivenNameSpaceAndFailsAsTheNodeSays) {
  for (const ErrorCode code : {ErrorCode::kNotFound, ErrorCode::kInvalidArgument, ErrorCode::kFailedPrecondition}) {
    auto found = in_thread([this] { return known_->find("one", "theirs", typeid(Counter).name()); });
    const auto question = node_.next<wire::FindActor>();
    EXPECT_EQ(question.message.name_space, "theirs");
    node_.refuse(question, {code, "no"});
    EXPECT_EQ(outcome_of(found).error().code(), code);
  }
  auto found = in_thread([this] { return known_->find("one", "", typeid(Counter).name()); });
  node_.answer(node_.next<wire::FindActor>(), wire::Done{});
  EXPECT_EQ(outcome_of(found).error().code(), ErrorCode::kInternal);
  EXPECT_EQ(known(), Ids{});
}

TEST_F(KnownActorsTest, FindDoesNotAskForABadNameNorANodeThatIsGone) {
  const std::string long_name(257, 'x');
  EXPECT_EQ(known_->find(long_name, "", "").error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(known_->find("one", long_name, "").error().code(), ErrorCode::kInvalidArgument);
  line_->hang_up({ErrorCode::kUnavailable, "the node is gone"});
  EXPECT_EQ(known_->find("one", "", "").error().message(), "the node is gone");
  EXPECT_TRUE(all_heard<wire::FindActor>().empty());
}

TEST_F(KnownActorsTest, AnActorIsConnectedToOnceAndItsCallsGoToItsWorker) {
  const auto actor = adopt();
  const auto again = adopt();
  const CellHandle waits = call(*actor->calls());
  const auto question = node_.next<wire::ConnectActor>();
  EXPECT_EQ(question.message.actor, kActor);
  EXPECT_EQ(question.message.seen, 0U);
  EXPECT_TRUE(all_heard<wire::ConnectActor>().empty());
  const auto worker = node_.offer_worker(question, {.worker = WorkerId{9}, .actor = kActor, .incarnation = 3});
  const auto frame = worker.next();
  EXPECT_EQ(frame.header.kind, wire::FrameKind::kCall);
  EXPECT_EQ(frame.header.caller, kCaller.value());
  EXPECT_EQ(frame.header.actor, kActor.value());
  EXPECT_EQ(frame.header.incarnation, 3U);
  worker.reply(frame.header.number);
  EXPECT_TRUE(has_value(waits));
}

TEST_F(KnownActorsTest, AnActorWhoseConnectionHasEndedIsConnectedToAgain) {
  std::shared_ptr<ActorHandle> actor;
  auto first = connect(actor, 4);
  first.die();
  const auto question = node_.next<wire::ConnectActor>();
  EXPECT_EQ(question.message.seen, 4U);
  const CellHandle waits = call(*actor->calls());
  const auto second = node_.offer_worker(question, {.worker = WorkerId{10}, .actor = kActor, .incarnation = 5});
  const auto frame = second.next();
  EXPECT_EQ(frame.header.incarnation, 5U);
  second.reply(frame.header.number);
  EXPECT_TRUE(has_value(waits));
  EXPECT_EQ(counts(), Counts{1}) << "it was known all the time";
}

TEST_F(KnownActorsTest, AnIncarnationThatTheHeadHasLostIsLeftForTheNextOne) {
  std::shared_ptr<ActorHandle> actor;
  const auto worker = connect(actor, 4);
  known_->leave({kOther, 4, {}});
  known_->leave({kActor, 3, {}});
  EXPECT_TRUE(all_heard<wire::ConnectActor>().empty()) << "this process has left those before, or never met them";
  known_->leave({kActor, 4, {}});
  EXPECT_EQ(node_.next<wire::ConnectActor>().message.seen, 4U);
  EXPECT_TRUE(worker.sees_the_end());
}

TEST_F(KnownActorsTest, CallsFailWhileAnActorCannotBeReachedAndItIsAskedForAgain) {
  const auto actor = adopt();
  const CellHandle waits = call(*actor->calls());
  node_.refuse(node_.next<wire::ConnectActor>(), {ErrorCode::kUnavailable, "its machine does not answer"});
  const Error why = error_of(waits);
  EXPECT_EQ(why.code(), ErrorCode::kUnavailable);
  EXPECT_SAYS(why.message(), "\"counter\" cannot be reached: its machine does not answer");
  const auto question = node_.next<wire::ConnectActor>();
  EXPECT_EQ(known(), Ids{kActor});
  const auto worker = node_.offer_worker(question, {.worker = WorkerId{9}, .actor = kActor, .incarnation = 1});
  const CellHandle later = call(*actor->calls());
  worker.reply(worker.next().header.number);
  EXPECT_TRUE(has_value(later));
}

TEST_F(KnownActorsTest, AnActorThatHasEndedIsForgottenAndItsCallsSayWhy) {
  const auto actor = adopt();
  const auto other = adopt(kOther);
  const CellHandle waits = call(*actor->calls());
  const CellHandle of_other = call(*other->calls());
  node_.refuse(node_.next<wire::ConnectActor>(), {ErrorCode::kActorDied, "it was killed"});
  EXPECT_EQ(error_of(waits).code(), ErrorCode::kActorDied);
  EXPECT_SAYS(error_of(waits).message(), "it was killed");
  EXPECT_EQ(error_of(call(*actor->calls())).code(), ErrorCode::kActorDied) << "later calls fail, too";
  EXPECT_EQ(known(), Ids{kOther});
  node_.refuse(node_.next<wire::ConnectActor>(), {ErrorCode::kInternal, "something else"});
  EXPECT_EQ(error_of(of_other).code(), ErrorCode::kActorDied);
  EXPECT_SAYS(error_of(of_other).message(), "\"counter\" cannot be reached: something else");
  EXPECT_EQ(known(), Ids{});
}

TEST_F(KnownActorsTest, AnActorThatIsKilledIsForgotten) {
  const auto actor = adopt();
  actor->kill();
  EXPECT_EQ(node_.next<wire::KillActor>().message.actor, kActor);
  EXPECT_EQ(known(), Ids{});
}

TEST_F(KnownActorsTest, ACallThatWasNotSentIsGivenUpAndTheWorkerIsToldOfAnotherOne) {
  std::shared_ptr<ActorHandle> actor;
  const auto worker = connect(actor);
  const auto other = adopt(kOther);
  const CellHandle unsent = call(*other->calls());
  EXPECT_TRUE(known_->cancel(*unsent));
  EXPECT_EQ(other->calls()->in_flight(), 0U);
  EXPECT_FALSE(known_->cancel(*unsent)) << "no actor has it any more";
  const CellHandle sent = call(*actor->calls());
  const auto frame = worker.next();
  EXPECT_FALSE(known_->cancel(*sent));
  worker.expect_cancel_of(frame.header.number);
}

TEST_F(KnownActorsTest, LoseAllFailsTheCallsOfAllActorsAndForgetsThem) {
  std::shared_ptr<ActorHandle> actor;
  const auto worker = connect(actor);
  const auto other = adopt(kOther);
  EXPECT_EQ(known(), (Ids{kActor, kOther}));
  const CellHandle sent = call(*actor->calls());
  const CellHandle unsent = call(*other->calls());
  const CellHandle loss = other->loss();
  known_->lose_all({ErrorCode::kRuntimeStopped, "it is over"});
  for (const CellHandle& each : {sent, unsent, loss, call(*actor->calls()), call(*other->calls())}) {
    EXPECT_EQ(error_of(each).code(), ErrorCode::kRuntimeStopped);
  }
  EXPECT_EQ(error_of(sent).outcome(), Outcome::kUnknown);
  EXPECT_EQ(error_of(unsent).outcome(), Outcome::kNotStarted);
  EXPECT_EQ(known(), Ids{});
}

}  // namespace
}  // namespace pharos::actors
