// A cluster gets a new token while it runs.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <pharos/process/token.hpp>

#include "durable_head.hpp"

namespace pharos::cluster::token_rotation {
namespace {

using namespace std::chrono_literals;

class TokenRotationTest : public DurableHead {
 protected:
  /// Starts a head, and a node on "c" that has a copy of the token file.
  void start_both() {
    start_durable_head();
    copy_token_to(of_node());
    start_node_with(of_node());
    copy_token_to(of_user());
  }
  void copy_token_to(const std::string& file) const { fs::copy_file(token_file(), file); }
  std::string of_node() const { return folder() / "token_of_node"; }
  std::string of_user() const { return folder() / "token_of_user"; }
  void start_node_with(const std::string& file) {
    nodes_.push_back(start({"start", "--block", "--address", address_, "--token-file", file}, "cpu=1,c=1"));
    read_until(*nodes_.back(), "joined the head at " + address_);
  }
  /// Runs a command with this token file.
  ChildProgram::End with(const std::string& file, std::vector<std::string> command) const {
    command.insert(command.end(), {"--address", address_, "--token-file", file});
    return ChildProgram{PHAROS_EXECUTABLE, std::move(command)}.wait(20s);
  }
  /// Runs a program whose node joins with the token of token_file(), and that has a task on "c".
  void run_program() const {
    const auto driver = start_driver("waits", {"nothing"});
    read_until(*driver, "c is ");
    const auto end = driver->wait(20s);
    EXPECT_EQ(end.status, 0) << end.output << end.error;
  }
  bool have_the_same_token(const std::string& one, const std::string& other) const {
    return *process::read_token(one) == *process::read_token(other);
  }
};

TEST_F(TokenRotationTest, BothTokensAreValidForAWhileAndNothingThatRunsIsDisturbed) {
  start_both();
  const auto driver = start_driver("quiet");
  read_until(*driver, "ready");
  const auto before = *process::read_token(token_file());
  const auto end = with(token_file(), {"token", "rotate"});
  EXPECT_EQ(end.status, 0) << end.error;
  EXPECT_SAYS(end.output, "the cluster has a new token, in " + token_file());
  EXPECT_SAYS(end.output, "The earlier token is valid for 24 h more.");
  EXPECT_NE(*process::read_token(token_file()), before);
  EXPECT_TRUE(eventually([&] { return have_the_same_token(token_file(), of_node()); }))
      << "a node keeps it where it was started from";
  EXPECT_EQ(with(token_file(), {"status"}).status, 0);
  EXPECT_EQ(with(of_user(), {"status"}).status, 0);
  run_program();
  EXPECT_EQ(::kill(driver->pid(), 0), 0) << "it still runs";
  driver->kill(SIGKILL);
  static_cast<void>(driver->wait());
}

TEST_F(TokenRotationTest, WhereTheEarlierTokenIsNotKeptItIsRefusedAtOnce) {
  start_both();
  ASSERT_EQ(with(token_file(), {"token", "rotate"}).status, 0);
  const auto end = with(token_file(), {"token", "rotate", "--keep", "0"});
  EXPECT_EQ(end.status, 0) << end.error;
  EXPECT_SAYS(end.output, "The earlier token is not valid any more.");
  EXPECT_EQ(with(token_file(), {"status"}).status, 0);
  EXPECT_TRUE(eventually([&] { return have_the_same_token(token_file(), of_node()); }));
  run_program();
  EXPECT_SAYS(with(of_user(), {"status"}).error, "the peer does not know this cluster's token");
  EXPECT_SAYS(with(of_user(), {"token", "rotate"}).error, "the peer does not know this cluster's token");
}

TEST_F(TokenRotationTest, AHeadThatStartsAgainTellsANodeThatWasAway) {
  must_end_within(100s);
  start_both();
  const pid_t node = daemon_of(*nodes_.back());
  ::kill(node, SIGSTOP);  // the node does not hear of the new tokens
  ASSERT_EQ(with(token_file(), {"token", "rotate"}).status, 0);
  ASSERT_EQ(with(token_file(), {"token", "rotate"}).status, 0);
  kill_head();
  start_durable_head();
  EXPECT_FALSE(have_the_same_token(token_file(), of_node()));
  ::kill(node, SIGCONT);
  EXPECT_TRUE(eventually([&] { return have_the_same_token(token_file(), of_node()); }));
  run_program();
}

}  // namespace
}  // namespace pharos::cluster::token_rotation
