#include "head/node_table.hpp"

#include <chrono>
#include <vector>

#include <pharos/net/token_ring.hpp>

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

TEST_F(HeadNodeTable, ANewTokenIsToldToAllNodesAndToThoseThatJoin) {
  add_node(2);
  const std::vector<std::byte> sealed(net::kSealedBytes, std::byte{7});
  nodes_.rotate_token(NodeId{1}, {sealed, 99, 5});
  EXPECT_EQ(last_told<wire::RotateToken>(2).sealed, sealed);
  EXPECT_EQ(told(1), (Names{"RotateToken", "Rows"}));
  nodes_.rotate_token(NodeId{1}, {sealed, 100, 6});
  add_node(3);
  EXPECT_EQ(told(3), (Names{"RotateToken", "RotateToken"})) << "in their order";
}

TEST_F(HeadNodeTable, OnlyTheLastNewTokensAreKept) {
  for (std::uint64_t i = 1; i <= Rotations::kKeptMax + 3; ++i) {
    nodes_.rotate_token(NodeId{1}, {std::vector<std::byte>(net::kSealedBytes), i, i});
  }
  EXPECT_EQ(nodes_.rotations().all().size(), Rotations::kKeptMax);
  EXPECT_EQ(nodes_.rotations().all().begin()->second.until, 4U);
}

TEST_F(HeadNodeTable, WhatIsNoSealedTokenIsRefused) {
  nodes_.rotate_token(NodeId{1}, {std::vector<std::byte>(net::kSealedBytes + 1), 99, 5});
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(nodes_.rotations().all().empty());
  EXPECT_FALSE(nodes_.rotations().restore({{}, 99, 1}));
}

}  // namespace
}  // namespace pharos::node::head
