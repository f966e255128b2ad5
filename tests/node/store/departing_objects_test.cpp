#include "store/departing_objects.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>
#include <variant>

#include "store/exported_objects.hpp"
#include "store_fixture.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using object_store::Location;

constexpr NodeId kDraining{1};
constexpr NodeId kFirst{2};
constexpr NodeId kSecond{3};

/// Two other nodes claim objects of a node that drains.
class DepartingObjectsTest : public StoreTest {
 protected:
  DepartingObjectsTest() {
    for (const NodeId node : {kFirst, kSecond}) exports_.add_neighbour(node, Fd{});
  }
  ~DepartingObjectsTest() override {
    departing_.close();
    executor_.run_until_idle();
  }

  KeptWire& wire_of(NodeId node) const { return *host_.wires.at(node == kFirst ? 0 : 1); }
  wire::Message claim(NodeId node, const Location& object) {
    wire_of(node).receive(wire::FrameKind::kRequest, ++last_number_of_wires_, wire::ClaimObject{object});
    executor_.run_until_idle();
    return take_sent(node).message;
  }
  /// The newest message to the node.
  KeptWire::Sent take_sent(NodeId node) {
    auto& sent = wire_of(node).sent;
    EXPECT_FALSE(sent.empty());
    if (sent.empty()) return {wire::FrameKind::kControl, 0, wire::Done{}};
    KeptWire::Sent newest = sent.back();
    sent.clear();
    return newest;
  }
  void answer(NodeId node, const KeptWire::Sent& asked, const wire::Message& answer) {
    wire_of(node).receive(wire::FrameKind::kResponse, asked.number, answer);
    executor_.run_until_idle();
  }
  void go_on() {
    departing_.go_on();
    executor_.run_until_idle();
  }
  static Location at(NodeId node, const Location& object) { return {object.id, {8, 9}, {}, node}; }

  std::uint64_t last_number_of_wires_ = 0;
  ImportedObjects imports_{executor_,
                           host_,
                           kDraining,
                           store_,
                           NodePins::open(store_, CallerId{1}).value(),
                           [](NodeId) -> async::Async<Result<std::string>> { co_return std::string{"there"}; },
                           [](std::uint32_t, const Location&, async::UniqueFunction<void(Result<void>)>) {}};
  ExportedObjects exports_{executor_,
                           host_,
                           kDraining,
                           store_,
                           NodePins::open(store_, CallerId{2000}).value(),
                           imports_,
                           [](const Location&, async::UniqueFunction<void(Result<void>)>) {}};
  DepartingObjects departing_{executor_, exports_};
};

TEST_F(DepartingObjectsTest, OneNodeTakesAnObjectAndTheOtherIsToldWhereItIs) {
  const Location object = make_object();
  claim(kFirst, object);
  claim(kSecond, object);
  go_on();
  const auto take = take_sent(kFirst);
  EXPECT_EQ(std::get<wire::TakeObject>(take.message).object, object);
  EXPECT_TRUE(wire_of(kSecond).sent.empty());
  answer(kFirst, take, wire::ObjectImported{at(kFirst, object)});
  const auto moved = take_sent(kSecond);
  EXPECT_EQ(std::get<wire::ObjectMoved>(moved.message).to, at(kFirst, object));
  EXPECT_EQ(exports_.claims(), 1U);
  answer(kSecond, moved, wire::Done{});
  EXPECT_EQ(exports_.claims(), 0U);
  const auto late = claim(kSecond, object);
  EXPECT_EQ(std::get<wire::ObjectClaimed>(late).elsewhere, at(kFirst, object));
}

TEST_F(DepartingObjectsTest, TheNodesOfSeveralObjectsTakeSharesOfThem) {
  const Location one = make_object();
  const Location two = make_object();
  for (const NodeId node : {kFirst, kSecond}) {
    claim(node, one);
    claim(node, two);
  }
  go_on();
  EXPECT_TRUE(std::holds_alternative<wire::TakeObject>(take_sent(kFirst).message));
  EXPECT_TRUE(std::holds_alternative<wire::TakeObject>(take_sent(kSecond).message));
}

TEST_F(DepartingObjectsTest, IfANodeCannotTakeAnObjectAnotherIsAsked) {
  const Location object = make_object();
  claim(kFirst, object);
  claim(kSecond, object);
  go_on();
  answer(kFirst, take_sent(kFirst), wire::Failure{Error{ErrorCode::kExhausted, "full"}});
  EXPECT_EQ(exports_.claims(), 2U);
  go_on();
  EXPECT_TRUE(std::holds_alternative<wire::TakeObject>(take_sent(kSecond).message));
}

TEST_F(DepartingObjectsTest, ANodeThatDoesNotNeedTheObjectClaimsItNoMore) {
  const Location object = make_object();
  claim(kFirst, object);
  go_on();
  answer(kFirst, take_sent(kFirst), wire::Failure{Error{ErrorCode::kUnavailable, "it is being claimed"}});
  EXPECT_EQ(exports_.claims(), 1U);
  go_on();
  answer(kFirst, take_sent(kFirst), wire::Failure{Error{ErrorCode::kNotFound, "no need"}});
  EXPECT_EQ(exports_.claims(), 0U);
}

TEST_F(DepartingObjectsTest, AnAnswerThatNamesAnotherObjectMovesNothing) {
  const Location object = make_object();
  claim(kFirst, object);
  for (const Location& wrong : {at(kSecond, object), Location{ObjectId{CallerId{1}, 99}, {}, {}, kFirst}}) {
    go_on();
    answer(kFirst, take_sent(kFirst), wire::ObjectImported{wrong});
    EXPECT_EQ(exports_.claims(), 1U);
    EXPECT_EQ(exports_.moved_to(object.id), nullptr);
  }
}

TEST_F(DepartingObjectsTest, IfItsNewNodeIsGoneTheObjectMovesOnceMore) {
  const Location object = make_object();
  claim(kFirst, object);
  claim(kSecond, object);
  go_on();
  answer(kFirst, take_sent(kFirst), wire::ObjectImported{at(kFirst, object)});
  answer(kSecond, take_sent(kSecond), wire::Failure{Error{ErrorCode::kObjectLost, "gone with its node"}});
  EXPECT_EQ(exports_.claims(), 1U);
  go_on();
  const auto take = take_sent(kSecond);
  EXPECT_TRUE(std::holds_alternative<wire::TakeObject>(take.message));
  answer(kSecond, take, wire::ObjectImported{at(kSecond, object)});
  EXPECT_EQ(exports_.claims(), 0U);
}

TEST_F(DepartingObjectsTest, ANodeThatDiesClaimsNothing) {
  const Location object = make_object();
  claim(kFirst, object);
  go_on();
  wire_of(kFirst).break_off();
  executor_.advance(2 * ImportedObjects::kAwayTime);
  go_on();
  EXPECT_EQ(exports_.claims(), 0U);
}

}  // namespace
}  // namespace pharos::node
