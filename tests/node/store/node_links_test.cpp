#include "store/node_links.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/async/async_group.hpp>

#include "bare_host.hpp"

namespace pharos::node {
namespace {

class NodeLinksTest : public testing::Test {
 protected:
  NodeLinksTest() { host_.reachable = true; }

  std::shared_ptr<std::optional<Result<NodeLinks::Link>>> reach(NodeId node) {
    auto result = std::make_shared<std::optional<Result<NodeLinks::Link>>>();
    tests_.spawn(reach(&links_, node, result));
    return result;
  }
  static async::Async<void> reach(NodeLinks* links, NodeId node,
                                  std::shared_ptr<std::optional<Result<NodeLinks::Link>>> result) {
    *result = co_await links->reach(node);
  }
  /// The address of a node, as the head gives it.
  async::Async<Result<std::string>> find(NodeId) {
    ++asked_;
    if (!is_known_) co_return Error{ErrorCode::kNotFound, "there is no such node"};
    co_return std::string{"there"};
  }

  async::ManualExecutor executor_;
  BareHost host_{executor_};
  int asked_ = 0;
  bool is_known_ = true;
  bool needed_ = false;
  std::vector<NodeId> connected_;
  std::vector<NodeId> ended_;
  NodeLinks links_{executor_,
                   host_,
                   NodeId{1},
                   [this](NodeId node) { return find(node); },
                   {.connected = [this](NodeId node, const NodeLinks::Link&) { connected_.push_back(node); },
                    .ended =
                        [this](NodeId node) {
                          ended_.push_back(node);
                          if (!needed_) links_.forget_if_unused(NodeId{node});
                        },
                    .asked = [](const NodeLinks::Link&, const wire::Message&, std::uint64_t) { return false; }}};
  async::AsyncGroup tests_{executor_};
};

using Nodes = std::vector<NodeId>;

TEST_F(NodeLinksTest, ThoseWhoReachANodeAtOnceShareOneConnection) {
  const auto first = reach(NodeId{2});
  const auto second = reach(NodeId{2});
  executor_.run_until_idle();
  ASSERT_TRUE(*first && (*first)->ok());
  ASSERT_TRUE(*second && (*second)->ok());
  EXPECT_EQ((*first)->value(), (*second)->value());
  EXPECT_EQ((*first)->value(), links_.link_to(NodeId{2}));
  EXPECT_EQ(connected_, Nodes{NodeId{2}});
  EXPECT_EQ(host_.wires.size(), 1u);
}

TEST_F(NodeLinksTest, ANodeOutsideTheClusterIsNotFound) {
  is_known_ = false;
  const auto result = reach(NodeId{2});
  executor_.run_until_idle();
  ASSERT_TRUE(*result && !(*result)->ok());
  EXPECT_EQ((*result)->error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(links_.link_to(NodeId{2}), nullptr);
}

TEST_F(NodeLinksTest, TheAddressOfANodeThatCannotBeReachedIsAskedForAnew) {
  host_.reachable = false;
  reach(NodeId{2});
  executor_.run_until_idle();
  reach(NodeId{2});
  executor_.run_until_idle();
  EXPECT_EQ(asked_, 2);
}

TEST_F(NodeLinksTest, AConnectionThatBreaksIsReportedAndTheAddressOfANodeThatIsNeededStays) {
  needed_ = true;
  reach(NodeId{2});
  executor_.run_until_idle();
  host_.wires.back()->break_off();
  executor_.run_until_idle();
  EXPECT_EQ(ended_, Nodes{NodeId{2}});
  EXPECT_EQ(links_.link_to(NodeId{2}), nullptr);
  reach(NodeId{2});
  executor_.run_until_idle();
  EXPECT_EQ(asked_, 1);
  EXPECT_NE(links_.link_to(NodeId{2}), nullptr);
}

TEST_F(NodeLinksTest, ANodeThatIsNotNeededIsForgotten) {
  reach(NodeId{2});
  executor_.run_until_idle();
  host_.wires.back()->break_off();
  executor_.run_until_idle();
  reach(NodeId{2});
  executor_.run_until_idle();
  EXPECT_EQ(asked_, 2);
}

TEST_F(NodeLinksTest, AConnectionThatIsGivenUpIsClosedUnlessItIsAnEarlierOne) {
  needed_ = true;
  const auto first = reach(NodeId{2});
  executor_.run_until_idle();
  const NodeLinks::Link link = (*first)->value();
  links_.give_up(NodeId{2}, *link);
  EXPECT_TRUE(host_.wires.back()->closed);
  EXPECT_EQ(ended_, Nodes{NodeId{2}});
  reach(NodeId{2});
  executor_.run_until_idle();
  links_.give_up(NodeId{2}, *link);
  EXPECT_EQ(ended_.size(), 1u);
  EXPECT_FALSE(host_.wires.back()->closed);
}

}  // namespace
}  // namespace pharos::node
