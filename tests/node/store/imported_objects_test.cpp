#include "store/imported_objects.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <variant>

#include <pharos/async/async_group.hpp>

#include "store_fixture.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using object_store::Location;

constexpr NodeId kOwn{1};
constexpr NodeId kOther{2};

class ImportedObjectsTest : public StoreTest {
 protected:
  ImportedObjectsTest() { host_.reachable = true; }
  ~ImportedObjectsTest() override {
    imports_.close();
    executor_.run_until_idle();
  }

  /// Imports an object of the other node, which says that it has it.
  void import_object() {
    imports_of_test_.spawn(import_one());
    executor_.run_until_idle();
    KeptWire& wire = *host_.wires.back();
    const auto claim = std::ranges::find_if(
        wire.sent, [](const KeptWire::Sent& each) { return std::holds_alternative<wire::ClaimObject>(each.message); });
    ASSERT_NE(claim, wire.sent.end());
    wire.receive(wire::FrameKind::kResponse, claim->number, wire::ObjectClaimed{.size = kObjectBytes});
    executor_.run_until_idle();
    ASSERT_EQ(imports_.size(), 1U);
  }
  async::Async<void> import_one() {
    const auto here = co_await imports_.import(table_, object_, ImportedObjects::kKeepTime);
    EXPECT_TRUE(here);
  }
  /// No process keeps the object in time, so it is released.
  void let_object_go() {
    executor_.advance(2 * ImportedObjects::kKeepTime);
    store_->book.end_outside();
    store_->book.reclaim();
    imports_.look();
    EXPECT_TRUE(imports_.empty());
  }
  void break_connection() {
    host_.wires.back()->break_off();
    executor_.run_until_idle();
  }
  /// The object of the newest release over the newest connection: no id for all that were not claimed again.
  std::optional<ObjectId> released() const {
    std::optional<ObjectId> newest;
    for (const KeptWire::Sent& each : host_.wires.back()->sent) {
      if (const auto* const release = std::get_if<wire::ReleaseObject>(&each.message)) newest = release->object.id;
    }
    return newest;
  }
  /// The node of the object asks for something. Returns the answer, if there is one.
  std::optional<wire::Message> ask(const wire::Message& question) {
    KeptWire& wire = *host_.wires.front();
    wire.sent.clear();
    wire.receive(wire::FrameKind::kRequest, ++last_asked_, question);
    executor_.run_until_idle();
    return answer();
  }
  std::optional<wire::Message> answer() const {
    const auto& sent = host_.wires.front()->sent;
    const auto found = std::ranges::find_if(sent, [this](const auto& each) {
      return each.kind == wire::FrameKind::kResponse && each.number == last_asked_;
    });
    return found == sent.end() ? std::nullopt : std::optional{found->message};
  }
  static std::optional<ErrorCode> refusal_of(const std::optional<wire::Message>& answer) {
    const auto* const failure = answer ? std::get_if<wire::Failure>(&*answer) : nullptr;
    return failure == nullptr ? std::nullopt : std::optional{failure->error.code()};
  }
  async::Async<Result<std::string>> find() {
    ++asked_;
    if (!is_known_) co_return Error{ErrorCode::kNotFound, "there is no such node"};
    co_return std::string{"there"};
  }

  const Location object_{ObjectId{CallerId{9}, 1}, {}, CallerId{9}, kOther};
  bool is_known_ = true;
  int asked_ = 0;
  std::uint64_t last_asked_ = 76;
  async::UniqueFunction<void(Result<void>)> brought_;
  ImportedObjects imports_{executor_,
                           host_,
                           kOwn,
                           store_,
                           NodePins::open(store_, CallerId{1}).value(),
                           [this](NodeId) { return find(); },
                           [this](std::uint32_t, const Location&, async::UniqueFunction<void(Result<void>)> then) {
                             brought_ = std::move(then);
                           }};
  async::AsyncGroup imports_of_test_{executor_};
};

TEST_F(ImportedObjectsTest, AnObjectThatNobodyKeepsIsReleased) {
  import_object();
  let_object_go();
  EXPECT_EQ(released(), object_.id);
}

TEST_F(ImportedObjectsTest, AReleaseThatWasLostWithTheConnectionIsMadeGood) {
  import_object();
  let_object_go();
  break_connection();
  ASSERT_EQ(host_.wires.size(), 2U);
  EXPECT_EQ(released(), ObjectId{});
}

TEST_F(ImportedObjectsTest, AReleaseWithoutAConnectionIsMadeGood) {
  import_object();
  host_.reachable = false;
  break_connection();
  let_object_go();
  host_.reachable = true;
  executor_.advance(1s);
  ASSERT_EQ(host_.wires.size(), 2U);
  EXPECT_EQ(released(), ObjectId{});
}

TEST_F(ImportedObjectsTest, ANodeThatTheHeadDoesNotKnowIsNotLookedForAnyMore) {
  import_object();
  let_object_go();
  host_.reachable = false;
  is_known_ = false;
  break_connection();
  executor_.advance(1s);
  const int asked = asked_;
  executor_.advance(ImportedObjects::kAwayTime);
  EXPECT_EQ(asked_, asked);
}

TEST_F(ImportedObjectsTest, AnObjectOfANodeThatDrainsIsHereForGood) {
  import_object();
  const Location here = imports_.find(object_.id).value();
  EXPECT_TRUE(imports_.is_elsewhere(here.place));
  EXPECT_FALSE(ask(wire::TakeObject{object_})) << "it has to be fetched first";
  ASSERT_TRUE(brought_);
  brought_({});
  executor_.run_until_idle();
  ASSERT_TRUE(answer());
  EXPECT_EQ(std::get<wire::ObjectImported>(*answer()).object, here);
  EXPECT_FALSE(imports_.is_elsewhere(here.place));
  ASSERT_NE(imports_.origin_of(here.place), nullptr);
  EXPECT_EQ(*imports_.origin_of(here.place), here);
  EXPECT_EQ(refusal_of(ask(wire::TakeObject{object_})), ErrorCode::kNotFound) << "it is not that node's any more";
}

TEST_F(ImportedObjectsTest, AnObjectThatCannotBeFetchedStaysThatOfItsNode) {
  import_object();
  EXPECT_FALSE(ask(wire::TakeObject{object_}));
  brought_(Error{ErrorCode::kExhausted, "full"});
  executor_.run_until_idle();
  EXPECT_EQ(refusal_of(answer()), ErrorCode::kExhausted);
  EXPECT_EQ(*imports_.origin_of(imports_.find(object_.id)->place), object_);
}

TEST_F(ImportedObjectsTest, AnObjectThatHasMovedIsClaimedWhereItIs) {
  import_object();
  const Location there{object_.id, {}, CallerId{9}, NodeId{3}};
  EXPECT_FALSE(ask(wire::ObjectMoved{object_, there}));
  ASSERT_EQ(host_.wires.size(), 2U);
  KeptWire& wire = *host_.wires.back();
  const auto claim = std::ranges::find_if(
      wire.sent, [](const KeptWire::Sent& each) { return std::holds_alternative<wire::ClaimObject>(each.message); });
  ASSERT_NE(claim, wire.sent.end());
  EXPECT_EQ(std::get<wire::ClaimObject>(claim->message).object, there);
  wire.receive(wire::FrameKind::kResponse, claim->number, wire::ObjectClaimed{.size = kObjectBytes});
  executor_.run_until_idle();
  ASSERT_TRUE(answer());
  EXPECT_TRUE(std::holds_alternative<wire::Done>(*answer()));
  EXPECT_EQ(*imports_.origin_of(imports_.find(object_.id)->place), there);
}

TEST_F(ImportedObjectsTest, WhatNothingHereNeedsIsNotTaken) {
  import_object();
  const Location other{ObjectId{CallerId{9}, 2}, {}, CallerId{9}, kOther};
  EXPECT_EQ(refusal_of(ask(wire::TakeObject{other})), ErrorCode::kNotFound);
  EXPECT_EQ(refusal_of(ask(wire::ObjectMoved{other, other})), ErrorCode::kNotFound);
  EXPECT_EQ(refusal_of(ask(wire::ClaimObject{object_})), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace pharos::node
