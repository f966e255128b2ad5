#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bare_host.hpp"
#include "daemon/joined_nodes.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using wire::FrameKind;

/// A head, and the wires of the nodes that join it. Each node is on a machine of its own unless a test says otherwise.
class JoinedNodesTest : public testing::Test {
 protected:
  JoinedNodesTest() {
    head_->add_node(NodeId{1}, {.address = {}, .total = {}}, [](const wire::Message&) {});
  }

  std::shared_ptr<KeptWire> connect() {
    host_.machine = "m" + std::to_string(host_.wires.size());
    joined_nodes_.add(Fd{});
    return host_.wires.back();
  }
  /// Sends a request to join, and returns the answer.
  wire::Message join(const std::shared_ptr<KeptWire>& wire, wire::JoinCluster join) {
    wire->receive(FrameKind::kRequest, 1, join);
    executor_.run_until_idle();
    for (const KeptWire::Sent& sent : wire->sent) {
      if (sent.kind == FrameKind::kResponse) return sent.message;
    }
    ADD_FAILURE() << "no answer came";
    return wire::Failure{Error{ErrorCode::kInternal, "no answer came"}};
  }
  std::shared_ptr<KeptWire> join(NodeId node) {
    auto wire = connect();
    const wire::Message answer = join(wire, {.node = node, .address = "there", .amounts = {}});
    if (const auto* const joined = std::get_if<wire::ClusterJoined>(&answer)) session_ = joined->session;
    return wire;
  }
  void beat(const std::shared_ptr<KeptWire>& wire) {
    wire->receive(FrameKind::kControl, ++beats_, wire::Beat{executor_.now()});
    executor_.run_until_idle();
  }
  /// Lets seconds pass, in each of which these wires carry a beat to the head.
  void pass(int seconds, const std::vector<std::shared_ptr<KeptWire>>& speaking = {}) {
    for (int i = 0; i < seconds; ++i) {
      executor_.advance(1s);
      for (const auto& wire : speaking) beat(wire);
    }
  }
  void break_off(const std::shared_ptr<KeptWire>& wire) {
    wire->break_off();
    executor_.run_until_idle();
  }

  async::ManualExecutor executor_;
  BareHost host_{executor_};
  std::unique_ptr<Head> head_ = std::make_unique<Head>(executor_);
  JoinedNodes joined_nodes_{executor_, host_, [this]() -> Result<Head*> {
                              if (head_ != nullptr) return head_.get();
                              return Error{ErrorCode::kUnavailable, "the head is starting"};
                            }};
  std::uint64_t session_ = 0;  // of the node that has joined last
  std::uint64_t beats_ = 0;
};

TEST_F(JoinedNodesTest, ANodeThatJoinsIsKnownToTheHead) {
  join(NodeId{2});
  EXPECT_TRUE(head_->knows(NodeId{2}));
  EXPECT_NE(session_, 0u);
}

TEST_F(JoinedNodesTest, ANodeCannotJoinWhileThereIsNoHead) {
  head_.reset();
  const wire::Message answer = join(connect(), {.node = NodeId{2}, .address = "there", .amounts = {}});
  ASSERT_TRUE(std::holds_alternative<wire::Failure>(answer));
  EXPECT_EQ(std::get<wire::Failure>(answer).error.message(), "the head is starting");
}

TEST_F(JoinedNodesTest, ANodeCannotJoinTwice) {
  join(NodeId{2});
  const wire::Message answer = join(connect(), {.node = NodeId{2}, .address = "there", .amounts = {}});
  ASSERT_TRUE(std::holds_alternative<wire::Failure>(answer));
  EXPECT_EQ(std::get<wire::Failure>(answer).error.code(), ErrorCode::kAlreadyExists);
}

TEST_F(JoinedNodesTest, ANodeThatTheHeadDoesNotExpectHearsThatItIsLost) {
  const wire::Message answer = join(connect(), {.node = NodeId{2}, .address = "there", .amounts = {}, .again = true});
  ASSERT_TRUE(std::holds_alternative<wire::ClusterJoined>(answer));
  EXPECT_TRUE(std::get<wire::ClusterJoined>(answer).lost);
}

TEST_F(JoinedNodesTest, ANodeWhoseConnectionEndsAtOnceIsLost) {
  const auto wire = join(NodeId{2});
  pass(3, {wire});
  break_off(wire);
  EXPECT_FALSE(head_->knows(NodeId{2}));
}

TEST_F(JoinedNodesTest, ANodeWhoseConnectionEndsAfterASilenceMayComeBackAndGoOn) {
  const auto wire = join(NodeId{2});
  const auto other = join(NodeId{3});
  const std::uint64_t session = std::exchange(session_, 0);
  pass(6, {wire});
  break_off(other);
  EXPECT_TRUE(head_->knows(NodeId{3}));
  const wire::Message answer = join(
      connect(), {.node = NodeId{3}, .address = "there", .amounts = {}, .again = true, .session = session, .heard = 0});
  ASSERT_TRUE(std::holds_alternative<wire::ClusterJoined>(answer));
  EXPECT_TRUE(std::get<wire::ClusterJoined>(answer).resumed);
  pass(20, {wire, host_.wires.back()});
  EXPECT_TRUE(head_->knows(NodeId{3}));
}

TEST_F(JoinedNodesTest, ANodeThatIsSilentForTooLongIsLostAndItsConnectionIsClosed) {
  const auto wire = join(NodeId{2});
  const auto other = join(NodeId{3});
  pass(10, {wire});
  EXPECT_FALSE(head_->knows(NodeId{3}));
  EXPECT_TRUE(other->closed);
  EXPECT_TRUE(head_->knows(NodeId{2}));
}

TEST_F(JoinedNodesTest, NoNodeIsLostWhileTheLinkOfTheHeadItselfMayBeDown) {
  const auto wire = join(NodeId{2});
  const auto other = join(NodeId{3});
  pass(2, {wire, other});
  pass(30);
  EXPECT_TRUE(head_->knows(NodeId{2}));
  EXPECT_TRUE(head_->knows(NodeId{3}));
}

TEST_F(JoinedNodesTest, EveryNodeIsToldToEnd) {
  const auto wire = join(NodeId{2});
  const auto other = join(NodeId{3});
  joined_nodes_.end_all();
  EXPECT_TRUE(std::holds_alternative<wire::EndNode>(wire->sent.back().message));
  EXPECT_TRUE(std::holds_alternative<wire::EndNode>(other->sent.back().message));
}

TEST_F(JoinedNodesTest, NodesThatAreForgottenAreNotLost) {
  const auto wire = join(NodeId{2});
  joined_nodes_.forget_all();
  EXPECT_TRUE(wire->closed);
  pass(20);
  EXPECT_TRUE(head_->knows(NodeId{2})) << "another head will take them back";
}

}  // namespace
}  // namespace pharos::node
