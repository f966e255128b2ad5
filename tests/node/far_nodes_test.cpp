#include "node/far_nodes.hpp"

#include <chrono>
#include <optional>

#include "parts_fixture.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

class FarNodesTest : public PartsTest {
 protected:
  static async::Async<void> find_into(FarNodesTest* test, std::optional<Result<std::string>>* into) {
    *into = co_await test->nodes.find(NodeId{2});
  }
  static async::Async<void> connect_into(FarNodesTest* test, std::optional<Result<Fd>>* into) {
    *into = co_await test->nodes.connect(NodeId{2}, "", Introduction{});
  }
  void begin_to_find() {
    background.spawn(find_into(this, &found));
    executor.run_until_idle();
  }
  std::uint64_t number() const { return std::get<wire::FindNode>(told.back()).number; }

  FarNodes nodes{executor, host, site.head, NodeId{1}, "head"};
  std::optional<Result<std::string>> found;
};

TEST_F(FarNodesTest, TheHeadIsAskedForAnAddress) {
  begin_to_find();
  nodes.on_found({number(), "far"});
  executor.run_until_idle();
  EXPECT_EQ(found->value(), "far");
  EXPECT_EQ(nodes.asked(), 0U);
}

TEST_F(FarNodesTest, TheEmptyAddressIsTheHeads) {
  begin_to_find();
  nodes.on_found({number(), ""});
  executor.run_until_idle();
  EXPECT_EQ(found->value(), "head");
}

TEST_F(FarNodesTest, ARefusalOfTheHeadIsTheResult) {
  begin_to_find();
  nodes.on_refused({number(), Error{ErrorCode::kNotFound, "there is no such node"}});
  executor.run_until_idle();
  EXPECT_EQ(found->error().code(), ErrorCode::kNotFound);
}

TEST_F(FarNodesTest, AnotherHeadIsAskedTheSameQuestion) {
  begin_to_find();
  const std::uint64_t first = number();
  nodes.ask_again();
  EXPECT_EQ(told.size(), 2U);
  EXPECT_EQ(number(), first);
}

TEST_F(FarNodesTest, AHeadThatDoesNotAnswerIsGivenUpAfterTenSeconds) {
  begin_to_find();
  executor.advance(10s);
  EXPECT_EQ(found->error().code(), ErrorCode::kDeadlineExceeded);
}

TEST_F(FarNodesTest, ANodeThatCannotBeReachedIsNamed) {
  host.unreachable = Error{ErrorCode::kUnavailable, "no route"};
  std::optional<Result<Fd>> socket;
  background.spawn(connect_into(this, &socket));
  executor.run_until_idle();
  EXPECT_EQ(host.reached, (Names{"head"}));
  EXPECT_NE(socket->error().message().find("cannot be reached from node"), std::string::npos);
}

}  // namespace
}  // namespace pharos::node
