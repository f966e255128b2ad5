#include "head/node_table.hpp"

#include <chrono>

#include "head_parts.hpp"

namespace pharos::node::head {
namespace {

using namespace std::chrono_literals;

class HeadNodeTable : public HeadParts {
 protected:
  HeadNodeTable() { add_node(1); }
};

TEST_F(HeadNodeTable, ANodeLearnsWhereAnotherIsReached) {
  add_node(2);
  nodes_.find_for(NodeId{1}, {NodeId{2}, 5});
  EXPECT_EQ(last_told<wire::NodeFound>(1).address, "10.0.0.2");
}

TEST_F(HeadNodeTable, ANodeThatIsOnlyExpectedIsFoundToo) {
  recovery_.expect(NodeId{3}, "10.0.0.3", events_.now() + 10s);
  nodes_.find_for(NodeId{1}, {NodeId{3}, 5});
  EXPECT_EQ(last_told<wire::NodeFound>(1).address, "10.0.0.3");
}

TEST_F(HeadNodeTable, AnUnknownNodeIsNotFound) {
  nodes_.find_for(NodeId{1}, {NodeId{4}, 5});
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kNotFound);
}

TEST_F(HeadNodeTable, AQuestionForASilentNodeWaitsUntilTheNodeIsHeardAgain) {
  add_node(2);
  nodes_.begin_silence(NodeId{2});
  nodes_.find_for(NodeId{1}, {NodeId{2}, 5});
  EXPECT_EQ(told(1), Names{});
  EXPECT_EQ(nodes_.asks(), 1u);
  EXPECT_TRUE(nodes_.end_silence(NodeId{2}));
  EXPECT_EQ(told(1), Names{"NodeFound"});
  EXPECT_FALSE(nodes_.end_silence(NodeId{2}));
}

TEST_F(HeadNodeTable, AQuestionForASilentNodeIsRefusedWhenTheNodeIsLost) {
  add_node(2);
  nodes_.begin_silence(NodeId{2});
  nodes_.find_for(NodeId{1}, {NodeId{2}, 5});
  EXPECT_EQ(nodes_.remove(NodeId{2}), "10.0.0.2");
  nodes_.end_silence(NodeId{2});
  EXPECT_EQ(told(1), Names{"Refused"});
}

TEST_F(HeadNodeTable, SeveralMessagesAreConfirmedTogether) {
  nodes_.note_said(NodeId{1});
  nodes_.note_said(NodeId{1});
  executor_.advance(99ms);
  EXPECT_EQ(told(1), Names{});
  executor_.advance(1ms);
  EXPECT_EQ(last_told<wire::Confirmed>(1).count, 2u);
  nodes_.note_said(NodeId{1});
  executor_.advance(100ms);
  EXPECT_EQ(last_told<wire::Confirmed>(1).count, 3u);
  executor_.advance(1s);
  EXPECT_EQ(told(1), Names{});
}

}  // namespace
}  // namespace pharos::node::head
